// Package jsonrpc reads JSON-RPC 2.0 envelopes in one pass over the bytes and
// writes them back with single values replaced. It builds no maps and encodes
// nothing again: what is forwarded is what was parsed.
//
// Parse is strict where the front end takes decisions and silent elsewhere. It
// checks the whole text against the JSON grammar of RFC 8259, UTF-8, the nesting
// depth and trailing data; it refuses duplicate names among the members of the
// envelope, and duplicates of the members listed at Message in params, _meta and
// result. A member listed there counts as a duplicate in params, and in _meta there, when the
// other one differs only in case, because some receivers ignore that. Duplicate names
// in other places are the receiver's affair.
package jsonrpc

// Kind is what a message is. The zero value is no message at all.
type Kind uint8

// The three kinds of JSON-RPC messages (JSON-RPC 2.0 sections 4 and 5).
const (
	Invalid Kind = iota
	Request
	Notification
	Response
)

// String names the kind for logs.
func (k Kind) String() string {
	switch k {
	case Request:
		return "request"
	case Notification:
		return "notification"
	case Response:
		return "response"
	}
	return "invalid"
}

// Limits of a message, beside its length, which is the reader's affair.
const (
	// MaxDepth is how deeply objects and arrays may nest in a client's message,
	// the envelope included.
	MaxDepth = 64
	// MaxWorkerDepth is the same for what a worker writes.
	MaxWorkerDepth = 512
	// MaxMembers is how many members an envelope may have.
	MaxMembers = 16
	// MaxID is the length of an id or progress token in bytes, quotes included.
	MaxID = 1024
)

// Codes of JSON-RPC 2.0 section 5.1.
const (
	CodeParse          = -32700
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603
)

// Span is a half-open range of bytes of Message.Raw. The zero Span is an absent
// value: no value starts at the first byte of a message.
type Span struct{ Start, End uint32 }

// Present reports whether the value was there.
func (s Span) Present() bool { return s.End != 0 }

// Of returns the bytes of raw that s covers, nil when the value is absent.
func (s Span) Of(raw []byte) []byte {
	if s.End == 0 {
		return nil
	}
	return raw[s.Start:s.End:s.End]
}

// Message is one parsed envelope. It points into the bytes it was parsed from
// and is valid as long as they are.
type Message struct {
	// Raw is the message without surrounding white space.
	Raw  []byte
	Kind Kind
	// ID, Params, Result and Error cover the values as they stand in Raw. An error that
	// names no request has null as its id or none (MCP 2025-11-25, basic, "Error Responses").
	ID, Params, Result, Error Span

	// Members of params (of a request or notification) or of result (of a
	// response), when that is an object. Name, URI, ProtocolVersion and
	// RequestState are set for strings only and then cover the quotes too;
	// RequestID and ProgressToken are set for strings and numbers only.
	Meta, Name, URI, RequestID, ProgressToken   Span
	ProtocolVersion, Capabilities, RequestState Span
	// Task is set for an object only (MCP 2025-11-25, basic/utilities/tasks).
	Task Span
	// Arguments, InputResponses, ResultType, TTL (ttlMs) and CacheScope are whatever
	// value stands there.
	Arguments, InputResponses, ResultType, TTL, CacheScope Span
	// NoMeta is a _meta that is no object; Meta is absent then.
	NoMeta Span
	// Members of _meta: progressToken and, with io.modelcontextprotocol/ before
	// their names, protocolVersion (a string only), clientCapabilities (an object
	// only), and logLevel, clientInfo, serverInfo and subscriptionId, whatever they are.
	MetaProgressToken, MetaProtocolVersion, MetaLogLevel, MetaCapabilities Span
	MetaClientInfo, MetaServerInfo, MetaSubscription                       Span

	method   []byte
	methodAt Span
}

// Method is the method's name with escapes resolved; nil for a response.
func (m *Message) Method() []byte { return m.method }

// Over is the message over raw, which must be a copy of m.Raw.
func (m *Message) Over(raw []byte) Message {
	out := *m
	out.Raw, out.method = raw, Unquote(m.methodAt.Of(raw))
	return out
}

// Is reports whether m is a request or notification of that method.
func (m *Message) Is(method string) bool { return string(m.method) == method }

// IDBytes is the id as it stands in the message, quotes included; nil when there
// is none. It stays valid for an error answer even when Parse refused the rest.
func (m *Message) IDBytes() []byte { return m.ID.Of(m.Raw) }

// Error is a refusal in the words of JSON-RPC. Text is fixed and may go to the
// client.
type Error struct {
	Code int
	Text string
	// Batch is set when the text is an array, which no served version allows.
	Batch bool
}

func (e *Error) Error() string { return "parse message: " + e.Text }
