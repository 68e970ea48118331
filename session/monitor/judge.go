package monitor

import (
	"context"
	"fmt"
	"time"

	"gatehouse/auth/identity"
	"gatehouse/auth/keys"
	"gatehouse/auth/token"
	"gatehouse/session/spawn"
)

// verdict is what the monitor itself found a spawn request to say.
type verdict struct {
	principal identity.Principal
	scopes    identity.Scopes
	// tokenID identifies the token by issuer and jti, never by its bytes, which can
	// be varied; "" in loopback mode.
	tokenID    string
	jti        string // for the log
	keyID      string
	served     time.Time // exp plus leeway; zero: for ever
	account    string    // the account claim's value
	clientOwn  bool
	generation uint64 // of the keys that verified it
}

// judge decides whether a request's token is good enough. The front end's opinion
// is never an input.
type judge interface {
	// Judge may wait for a key that was published a moment ago. The error is a
	// *spawn.Error.
	Judge(ctx context.Context, server uint16, raw string) (verdict, error)
	// Generation is another one whenever the usable keys are.
	Generation() uint64
}

// refuse makes a refusal; the reason is for the log.
func refuse(kind spawn.Kind, format string, args ...any) *spawn.Error {
	return &spawn.Error{Kind: kind, Reason: fmt.Sprintf(format, args...)}
}

// loopbackJudge admits everybody as the one local user, and refuses tokens, which
// have no business there.
type loopbackJudge struct{}

func (loopbackJudge) Judge(_ context.Context, _ uint16, raw string) (verdict, error) {
	if raw != "" {
		return verdict{}, refuse(spawn.KindToken, "a token in loopback mode")
	}
	return verdict{principal: identity.Loopback}, nil
}

func (loopbackJudge) Generation() uint64 { return 0 }

// tokenJudge verifies tokens with keys that came from the keykeeper alone. The
// zero value refuses everything.
type tokenJudge struct {
	verifier  *token.Verifier
	keys      keys.Source
	audiences [][]string // by server
	now       func() time.Time
}

var (
	_ judge = loopbackJudge{}
	_ judge = (*tokenJudge)(nil)
)

func (j *tokenJudge) Generation() uint64 {
	_, g := j.keys.Current()
	return g
}

func (j *tokenJudge) Judge(ctx context.Context, server uint16, raw string) (verdict, error) {
	if j.verifier == nil || j.keys == nil || int(server) >= len(j.audiences) {
		return verdict{}, refuse(spawn.KindToken, "no way to judge a token for server %d", server)
	}
	tok, generation, refused := keys.Judge(ctx, j.verifier, j.keys, raw, j.audiences[server], j.now)
	switch {
	case refused == nil:
	case refused.Undecided:
		return verdict{}, &spawn.Error{Kind: spawn.KindUndecided, Reason: refused.Reason}
	default:
		return verdict{}, &spawn.Error{Kind: spawn.KindToken, Reason: refused.Reason}
	}
	return verdict{
		principal: tok.Principal, scopes: tok.Scopes, keyID: tok.KeyID, jti: tok.ID,
		tokenID: tokenIDOf(tok.Principal.Issuer, tok.ID, raw),
		served:  tok.Until(), account: tok.AccountClaim, clientOwn: tok.ClientOwn, generation: generation,
	}, nil
}
