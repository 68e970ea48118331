package jsonrpc

import (
	"bytes"
	"math"
)

// The refusals of Parse, in fixed words.
var (
	errSyntax   = &Error{Code: CodeParse, Text: "the text is not valid JSON"}
	errUTF8     = &Error{Code: CodeParse, Text: "the text is not valid UTF-8"}
	errTrailing = &Error{Code: CodeParse, Text: "something follows the message"}
	errDepth    = &Error{Code: CodeParse, Text: "the text is nested too deeply"}
	errLong     = &Error{Code: CodeParse, Text: "the text is too long"}

	errBatch     = &Error{Code: CodeInvalidRequest, Text: "batches are not supported; send one message a request", Batch: true}
	errNoObject  = &Error{Code: CodeInvalidRequest, Text: "a message is a JSON object"}
	errVersion   = &Error{Code: CodeInvalidRequest, Text: `"jsonrpc" must be "2.0"`}
	errDuplicate = &Error{Code: CodeInvalidRequest, Text: "a member of the message appears twice"}
	errCase      = &Error{Code: CodeInvalidRequest, Text: "a member of the message is misspelt in upper or lower case"}
	errMembers   = &Error{Code: CodeInvalidRequest, Text: "the message has too many members"}
	errID        = &Error{Code: CodeInvalidRequest, Text: `"id" must be a string or a number`}
	errIDLong    = &Error{Code: CodeInvalidRequest, Text: "an id or a progress token is too long"}
	errMethod    = &Error{Code: CodeInvalidRequest, Text: `"method" must be a string that is not empty`}
	errShape     = &Error{Code: CodeInvalidRequest, Text: "the message is neither a request, a notification nor a response"}
	errError     = &Error{Code: CodeInvalidRequest, Text: `"error" must be an object`}
	errParams    = &Error{Code: CodeInvalidParams, Text: `"params" must be an object`}
)

// Parse reads one message of a client: nesting up to MaxDepth. On a refusal, a
// *Error, the returned Message still has the id when one was read.
func Parse(b []byte) (Message, error) { return parse(b, MaxDepth) }

// ParseWorker is Parse for what a worker writes: nesting up to MaxWorkerDepth.
func ParseWorker(b []byte) (Message, error) { return parse(b, MaxWorkerDepth) }

func parse(b []byte, maxDepth int) (Message, error) {
	if uint64(len(b)) > math.MaxUint32 {
		return Message{}, errLong
	}
	p := parser{scanner: scanner{b: trim(b), max: maxDepth}}
	p.m.Raw = p.b
	switch p.peek() {
	case '{':
	case '[':
		return p.m, errBatch
	default:
		if err := p.value(0); err != nil {
			return p.m, err
		}
		p.refuse(errNoObject)
		return p.m, p.end()
	}
	if err := p.members(inEnvelope, 1); err != nil {
		return p.m, err
	}
	if err := p.end(); err != nil {
		return p.m, err
	}
	p.classify()
	if p.refused != nil {
		p.m.Kind = Invalid
		return p.m, p.refused
	}
	return p.m, nil
}

// trim cuts white space from both ends.
func trim(b []byte) []byte {
	isSpace := func(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }
	for len(b) > 0 && isSpace(b[0]) {
		b = b[1:]
	}
	for len(b) > 0 && isSpace(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}

// Members of the envelope and compared members of params, result and _meta, as
// bits of parser.seen.
const (
	seenVersion = 1 << iota
	seenID
	seenMethod
	seenParams
	seenResult
	seenError

	seenMeta
	seenName
	seenURI
	seenRequestID
	seenToken
	seenProtocol
	seenCapabilities
	seenState
	seenArguments
	seenResponses
	seenResultType
	seenTTL
	seenCacheScope
	seenTask
	seenMetaToken
	seenMetaProtocol
	seenMetaLevel
	seenMetaCapabilities
	seenMetaClient
	seenMetaServer
	seenMetaSubscription
)

type parser struct {
	scanner
	m       Message
	refused *Error // the first fault that is none of grammar
	seen    uint32
	params  bool   // params are looked at, or _meta in them
	folded  uint32 // of seen: compared members of params whose names were met in another case
	idNull  bool
	// names are the envelope's members that we do not know, for the search for
	// duplicates.
	names  [MaxMembers][]byte
	others int
}

func (p *parser) refuse(e *Error) {
	if p.refused == nil {
		p.refused = e
	}
}

// once notes that a compared member was met, and refuses the second.
func (p *parser) once(bit uint32) {
	if p.seen&bit != 0 {
		p.refuse(errDuplicate)
	}
	p.seen |= bit
}

func (p *parser) end() error {
	p.space()
	if p.i != len(p.b) {
		return errTrailing
	}
	if p.folded&p.seen != 0 {
		p.refuse(errCase)
	}
	if p.refused != nil {
		return p.refused
	}
	return nil
}

// place names the objects whose members are looked at. (A number and a switch
// instead of a function value keep the parser on the stack.)
type place uint8

const (
	inEnvelope place = iota
	inPayload        // params or result
	inMeta
)

// members walks over an object and hands each member on when its value is next.
func (p *parser) members(in place, depth int) *Error {
	if depth > p.max {
		return errDepth
	}
	p.i++
	if p.peek() == '}' {
		p.i++
		return nil
	}
	for {
		if p.peek() != '"' {
			return errSyntax
		}
		start := p.i
		escaped, err := p.str()
		if err != nil {
			return err
		}
		name := p.b[start+1 : p.i-1]
		if escaped {
			name = Unquote(p.b[start:p.i])
		}
		if p.peek() != ':' {
			return errSyntax
		}
		p.i++
		p.space()
		switch in {
		case inEnvelope:
			err = p.member(name, depth)
		case inPayload:
			err = p.payloadMember(name, depth)
		case inMeta:
			err = p.metaMember(name, depth)
		}
		if err != nil {
			return err
		}
		if more, err := p.next('}'); !more {
			return err
		}
	}
}

// take moves past a value and returns where it stood and its first byte.
func (p *parser) take(depth int) (Span, byte, *Error) {
	c, start := p.peek(), p.i
	err := p.value(depth)
	return Span{uint32(start), uint32(p.i)}, c, err
}

func isNumber(c byte) bool { return c == '-' || c-'0' <= 9 }

// member handles one member of the envelope.
func (p *parser) member(name []byte, depth int) *Error {
	switch string(name) {
	case "jsonrpc":
		p.once(seenVersion)
		v, _, err := p.take(depth)
		if string(v.Of(p.b)) != `"2.0"` {
			p.refuse(errVersion)
		}
		return err
	case "id":
		p.once(seenID)
		return p.id(depth)
	case "method":
		p.once(seenMethod)
		v, c, err := p.take(depth)
		if err != nil {
			return err
		}
		p.m.methodAt = v
		if p.m.method = Unquote(v.Of(p.b)); c != '"' || len(p.m.method) == 0 {
			p.refuse(errMethod)
		}
		return nil
	case "params":
		p.once(seenParams)
		return p.paramsMember(depth)
	case "result":
		p.once(seenResult)
		return p.payload(&p.m.Result, depth)
	case "error":
		p.once(seenError)
		v, c, err := p.take(depth)
		if c != '{' {
			p.refuse(errError)
		}
		p.m.Error = v
		return err
	}
	p.other(name)
	return p.value(depth)
}

// other looks for a second member of the same name, and for one that a receiver
// who ignores case would take for a member of ours.
func (p *parser) other(name []byte) {
	for _, known := range [...]string{"jsonrpc", "id", "method", "params", "result", "error"} {
		if bytes.EqualFold(name, []byte(known)) {
			p.refuse(errCase)
		}
	}
	for _, n := range p.names[:p.others] {
		if bytes.Equal(n, name) {
			p.refuse(errDuplicate)
		}
	}
	if p.others == len(p.names) {
		p.refuse(errMembers)
		return
	}
	p.names[p.others] = name
	p.others++
}

func (p *parser) id(depth int) *Error {
	v, c, err := p.take(depth)
	switch {
	case err != nil:
		return err
	case c == 'n':
		p.idNull = true
	case c != '"' && !isNumber(c):
		p.refuse(errID)
		return nil
	case v.End-v.Start > MaxID:
		p.refuse(errIDLong)
		return nil
	}
	p.m.ID = v
	return nil
}

// paramsMember wants an object, and takes null for absent, as some clients write it.
func (p *parser) paramsMember(depth int) *Error {
	switch p.peek() {
	case '{':
		p.params = true
		err := p.payload(&p.m.Params, depth)
		p.params = false
		return err
	case 'n':
	default:
		p.refuse(errParams)
	}
	return p.value(depth)
}

// The members of params, and of _meta there, by which we decide something about a request.
var comparedInParams, comparedInMeta = []compared{
	{"_meta", seenMeta}, {"name", seenName}, {"uri", seenURI}, {"requestId", seenRequestID}, {"progressToken", seenToken},
	{"protocolVersion", seenProtocol}, {"capabilities", seenCapabilities}, {"task", seenTask}, {"requestState", seenState},
	{"arguments", seenArguments}, {"inputResponses", seenResponses},
}, []compared{
	{"progressToken", seenMetaToken},
	{"io.modelcontextprotocol/protocolVersion", seenMetaProtocol}, {"io.modelcontextprotocol/logLevel", seenMetaLevel},
	{"io.modelcontextprotocol/clientCapabilities", seenMetaCapabilities}, {"io.modelcontextprotocol/clientInfo", seenMetaClient},
}

type compared struct {
	name string
	bit  uint32
}

// fold notes a member of params that a receiver who ignores case would take for one of
// those. It is refused beside the real one only: alone it decides nothing here.
func (p *parser) fold(name []byte, among []compared) {
	if !p.params {
		return
	}
	for _, c := range among {
		if bytes.EqualFold(name, []byte(c.name)) {
			p.folded |= c.bit
		}
	}
}

// payload handles params or result: its compared members when it is an object.
func (p *parser) payload(span *Span, depth int) *Error {
	start := p.i
	var err *Error
	if p.peek() == '{' {
		err = p.members(inPayload, depth+1)
	} else {
		err = p.value(depth)
	}
	*span = Span{uint32(start), uint32(p.i)}
	return err
}

func (p *parser) payloadMember(name []byte, depth int) *Error {
	m := &p.m
	switch string(name) {
	case "_meta":
		if p.peek() != '{' {
			return p.whatever(&m.NoMeta, seenMeta, depth)
		}
		p.once(seenMeta)
		start := p.i
		err := p.members(inMeta, depth+1)
		m.Meta = Span{uint32(start), uint32(p.i)}
		return err
	case "name":
		return p.text(&m.Name, seenName, depth)
	case "uri":
		return p.text(&m.URI, seenURI, depth)
	case "requestId":
		return p.token(&m.RequestID, seenRequestID, depth)
	case "progressToken":
		return p.token(&m.ProgressToken, seenToken, depth)
	case "protocolVersion":
		return p.text(&m.ProtocolVersion, seenProtocol, depth)
	case "requestState":
		return p.text(&m.RequestState, seenState, depth)
	case "capabilities":
		return p.objectValue(&m.Capabilities, seenCapabilities, depth)
	case "task":
		return p.objectValue(&m.Task, seenTask, depth)
	case "arguments":
		return p.whatever(&m.Arguments, seenArguments, depth)
	case "inputResponses":
		return p.whatever(&m.InputResponses, seenResponses, depth)
	case "resultType":
		return p.whatever(&m.ResultType, seenResultType, depth)
	case "ttlMs":
		return p.whatever(&m.TTL, seenTTL, depth)
	case "cacheScope":
		return p.whatever(&m.CacheScope, seenCacheScope, depth)
	}
	p.fold(name, comparedInParams)
	return p.value(depth)
}

func (p *parser) metaMember(name []byte, depth int) *Error {
	switch string(name) {
	case "progressToken":
		return p.token(&p.m.MetaProgressToken, seenMetaToken, depth)
	case "io.modelcontextprotocol/protocolVersion":
		return p.text(&p.m.MetaProtocolVersion, seenMetaProtocol, depth)
	case "io.modelcontextprotocol/logLevel":
		return p.whatever(&p.m.MetaLogLevel, seenMetaLevel, depth)
	case "io.modelcontextprotocol/clientCapabilities":
		return p.objectValue(&p.m.MetaCapabilities, seenMetaCapabilities, depth)
	case "io.modelcontextprotocol/clientInfo":
		return p.whatever(&p.m.MetaClientInfo, seenMetaClient, depth)
	case "io.modelcontextprotocol/serverInfo":
		return p.whatever(&p.m.MetaServerInfo, seenMetaServer, depth)
	case "io.modelcontextprotocol/subscriptionId":
		return p.whatever(&p.m.MetaSubscription, seenMetaSubscription, depth)
	}
	p.fold(name, comparedInMeta)
	return p.value(depth)
}

// whatever takes a compared member of any type.
func (p *parser) whatever(span *Span, bit uint32, depth int) (err *Error) {
	p.once(bit)
	*span, _, err = p.take(depth)
	return err
}

// objectValue takes a compared member that is an object.
func (p *parser) objectValue(span *Span, bit uint32, depth int) *Error {
	p.once(bit)
	v, c, err := p.take(depth)
	if c == '{' {
		*span = v
	}
	return err
}

// text takes a compared member that is a string.
func (p *parser) text(span *Span, bit uint32, depth int) *Error {
	p.once(bit)
	v, c, err := p.take(depth)
	if c == '"' {
		*span = v
	}
	return err
}

// token takes a compared member that is a string or a number.
func (p *parser) token(span *Span, bit uint32, depth int) *Error {
	p.once(bit)
	v, c, err := p.take(depth)
	if c == '"' || isNumber(c) {
		if v.End-v.Start > MaxID {
			p.refuse(errIDLong)
		}
		*span = v
	}
	return err
}

// classify says what the members make the message.
func (p *parser) classify() {
	if p.seen&seenVersion == 0 {
		p.refuse(errVersion)
	}
	answer := p.seen & (seenResult | seenError)
	switch {
	case p.seen&seenMethod != 0:
		if answer != 0 {
			p.refuse(errShape)
		}
		if p.idNull {
			p.refuse(errID)
		}
		p.m.Kind = Notification
		if p.seen&seenID != 0 {
			p.m.Kind = Request
		}
	case answer == 0 || answer == seenResult|seenError || p.seen&seenParams != 0 || answer == seenResult && p.seen&seenID == 0:
		p.refuse(errShape)
	case p.idNull && answer == seenResult:
		p.refuse(errID)
	default:
		p.m.Kind = Response
	}
}
