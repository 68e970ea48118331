package bridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"gatehouse/session/jsonrpc"
)

// Newest is the newest legacy version, which a client that asks for one we do not
// offer is answered with (MCP 2025-11-25, basic/lifecycle, version negotiation).
const Newest = "2025-11-25"

// Offered are the versions that clients may speak, Understood those that workers
// may answer with. 2025-03-26 is not offered, because it obliges a server to
// accept batches.
var (
	Offered    = []string{"2025-06-18", "2025-11-25"}
	Understood = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}
)

// Greeting is what the handshake brought.
type Greeting struct {
	// Response is the worker's answer as it goes to the client.
	Response []byte
	// Version is what the client and we speak.
	Version string
	// Refused: the worker answered initialize with an error, which is Response.
	Refused bool
}

// CheckInitialize says whether m is an initialize request that can be handed on.
// The error is a *jsonrpc.Error.
func CheckInitialize(m *jsonrpc.Message) error {
	switch {
	case m.Kind != jsonrpc.Request || !m.Is("initialize"):
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Text: "the first message must be an initialize request"}
	case !m.ProtocolVersion.Present():
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Text: `initialize needs a "protocolVersion"`}
	}
	return nil
}

// Handshake passes the client's initialize request on and waits for the answer. It
// must be the first call, and may only be made once.
//
// Errors: ctx.Err(); an error that says what is wrong with the worker. After an
// error the caller stops the worker.
func (b *Bridge) Handshake(ctx context.Context, m *jsonrpc.Message) (Greeting, error) {
	g := Greeting{Version: string(jsonrpc.Unquote(m.ProtocolVersion.Of(m.Raw)))}
	if !slices.Contains(Offered, g.Version) {
		g.Version = Newest
		raw := jsonrpc.AppendEdited(nil, m.Raw, jsonrpc.Edit{Span: m.ProtocolVersion, With: quoted(Newest)})
		changed, err := jsonrpc.Parse(raw)
		if err != nil {
			return g, fmt.Errorf("edit initialize: %w", err)
		}
		m = &changed
	}
	var c Call
	if err := b.Begin(ctx, &c, m, Options{Single: true}); err != nil {
		return g, b.why(err)
	}
	defer c.Close()
	answer, _, err := c.Next(ctx, 0)
	if err != nil {
		return g, b.why(err)
	}
	err = b.greet(&g, answer)
	return g, err
}

// greet reads the worker's answer and puts the client's version into it.
func (b *Bridge) greet(g *Greeting, answer []byte) error {
	m, err := jsonrpc.ParseWorker(answer)
	if err != nil {
		return fmt.Errorf("the worker's answer to initialize: %w", err)
	}
	if m.Error.Present() {
		g.Refused, g.Response = true, bytes.Clone(answer)
		return nil
	}
	version := string(jsonrpc.Unquote(m.ProtocolVersion.Of(m.Raw)))
	switch {
	case slices.Contains(Offered, version):
		b.mu.Lock()
		b.noBatches = true
		b.mu.Unlock()
		g.Version = version
		g.Response = bytes.Clone(answer)
	case slices.Contains(Understood, version):
		g.Response = jsonrpc.AppendEdited(nil, m.Raw, jsonrpc.Edit{Span: m.ProtocolVersion, With: quoted(g.Version)})
	default:
		return errors.New("the worker answered initialize with a protocol version that is not understood")
	}
	return nil
}

// why puts the reason of the worker's end into ErrGone.
func (b *Bridge) why(err error) error {
	if errors.Is(err, ErrGone) {
		return fmt.Errorf("%w: %s", err, b.Reason())
	}
	return err
}

func quoted(version string) []byte { return []byte(`"` + version + `"`) }

// Declared reads the client's capabilities from its initialize request.
func Declared(m *jsonrpc.Message) Capability { return DeclaredIn(m.Capabilities.Of(m.Raw)) }

// DeclaredIn reads the capabilities of a client from their object.
func DeclaredIn(capabilities []byte) (can Capability) {
	for name, value := range jsonrpc.Members(capabilities) {
		if len(value) == 0 || value[0] != '{' {
			continue
		}
		switch name {
		case "sampling":
			can |= CanSample
		case "elicitation":
			can |= CanElicit
		case "roots":
			can |= CanListRoots
		}
	}
	return can
}

// Notify passes a client's notification on and waits until it is written.
// notifications/cancelled is obeyed at once and waits for nothing.
//
// Errors: ErrGone, ctx.Err().
func (b *Bridge) Notify(ctx context.Context, m *jsonrpc.Message) error {
	if m.Is("notifications/cancelled") {
		b.cancel(m)
		return nil
	}
	return b.forward(ctx, m.Raw)
}
