package router

import (
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"time"

	"gatehouse/auth/audit"
	"gatehouse/session/jsonrpc"
)

// pace is how long things may take on a connection.
type pace struct {
	// first is how long an answer may take and still be plain JSON; what takes
	// longer, or begins with another message, becomes a stream.
	first time.Duration
	// keepalive is how long a stream may be silent before a comment is sent, so
	// that proxies do not close it.
	keepalive time.Duration
	// blocked is how long a write may be blocked before the client is cut off.
	blocked time.Duration
	// body is how long a body may take, beside what has arrived at bodyRate.
	body time.Duration
}

var usual = pace{first: 100 * time.Millisecond, keepalive: 15 * time.Second, blocked: 5 * time.Second, body: 20 * time.Second}

// writeChunk is how much is written under one limit of a blocked write: a client
// that reads slowly is served, one that does not read is not.
const writeChunk = 64 << 10

// visit is one request on its way through the door: the response writer that
// every handler gets, and the line that will be written about it.
type visit struct {
	http.ResponseWriter
	line  audit.Line
	start time.Time
	pace  pace
	trace *audit.Trace
	heard bool // the request's line of the trace was written
	wrote bool // the header was
	turn  int  // bytes sent since others had one
	// modern: the request says that it is of the modern era.
	modern bool
	http2  bool

	// What a POST brought; here, because visits are used again.
	body    *[]byte // pooled; message points into it
	message jsonrpc.Message
	asked   asked
	id      []byte // the request's id, once body is gone
}

var visits = sync.Pool{New: func() any { return new(visit) }}

// begin makes v the visit of a request.
func (v *visit) begin(w http.ResponseWriter, r *http.Request, p pace, t *audit.Trace) {
	*v = visit{ResponseWriter: w, start: time.Now(), pace: p, trace: t, id: v.id[:0], modern: modernHeader(r.Header["Mcp-Protocol-Version"]), http2: r.ProtoMajor == 2, line: audit.Line{
		Remote: r.RemoteAddr, Protocol: r.Proto, Method: r.Method, Path: r.URL.Path,
	}}
}

// forget drops what the visit holds of its request.
func (v *visit) forget() {
	v.freeBody()
	*v = visit{id: v.id[:0]}
}

// freeBody gives the body back, and with it all that points into it.
func (v *visit) freeBody() {
	if v.body != nil {
		v.traceIn()
		giveBack(v.body)
		v.body, v.message, v.asked = nil, jsonrpc.Message{}, asked{}
	}
}

// keepID frees the body of a request, of which the id alone is needed while the
// call runs.
func (v *visit) keepID() []byte {
	v.id = append(v.id[:0], v.message.IDBytes()...)
	v.freeBody()
	return v.id
}

// traceIn writes the request into the trace, once: when its session is known, or
// nothing more will be.
func (v *visit) traceIn() {
	if v.trace != nil && !v.heard {
		v.heard = true
		var body []byte // of a request that was refused unread
		if v.body != nil {
			body = *v.body
		}
		v.trace.Message(audit.In, v.line.Method, v.line.Path, v.line.Session, v.line.Principal, body)
	}
}

// traceOut writes a message to the client into the trace.
func (v *visit) traceOut(body []byte) {
	if v.trace != nil {
		v.traceIn()
		v.trace.Message(audit.Out, v.line.Method, v.line.Path, v.line.Session, v.line.Principal, body)
	}
}

// Unwrap lets http.ResponseController reach the writer below.
func (v *visit) Unwrap() http.ResponseWriter { return v.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (v *visit) WriteHeader(status int) {
	if v.wrote {
		return
	}
	v.wrote = true
	v.line.Status = status
	now := time.Now()
	v.Header()["Date"] = date(now)
	v.limit(now)
	v.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (v *visit) Write(p []byte) (int, error) {
	if !v.wrote {
		v.WriteHeader(http.StatusOK)
	}
	n, err := v.ResponseWriter.Write(p)
	v.line.Bytes += int64(n)
	return n, err
}

// deadliner is what the writers of net/http offer beside http.ResponseWriter.
type deadliner interface {
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}

// arm limits how long what is written next may be blocked. After a response net/http
// lifts the limit, once it has flushed what it holds.
func (v *visit) arm() { v.limit(time.Now()) }

func (v *visit) limit(now time.Time) {
	if d, ok := v.ResponseWriter.(deadliner); ok {
		d.SetWriteDeadline(now.Add(v.pace.blocked)) // without support there is no limit
	}
}

// disarm lifts the limit while there is nothing to write.
func (v *visit) disarm() {
	if d, ok := v.ResponseWriter.(deadliner); ok {
		d.SetWriteDeadline(time.Time{})
	}
}

// send writes p in pieces, each under a limit of its own.
func (v *visit) send(p []byte) error {
	for len(p) > writeChunk {
		if err := v.piece(p[:writeChunk]); err != nil {
			return err
		}
		p = p[writeChunk:]
		v.arm()
	}
	return v.piece(p)
}

// piece writes one piece, and gives others a turn after every writeChunk of them: a
// response that is never short of something to send, and of room to send it, would
// have a processor for 10 ms at a time, and a dozen of them hold everybody up.
func (v *visit) piece(p []byte) error {
	if v.turn += len(p); v.turn > writeChunk {
		v.turn = 0
		runtime.Gosched()
	}
	if v.http2 && len(p) > shortPiece {
		return v.copied(p)
	}
	_, err := v.Write(p)
	return err
}

// shortPiece is the longest piece of which net/http takes a copy in any case, in bytes.
const shortPiece = 4 << 10

// spares hold the copies of pieces, of writeChunk bytes each.
var spares = sync.Pool{New: func() any { return new([writeChunk]byte) }}

// copied writes a copy of one piece. The HTTP/2 server of net/http has another goroutine
// read a long piece, and does not wait for it when the client resets the stream: memory
// that is used again could then carry somebody else's message to that client. A copy
// whose write failed is left to the collector.
func (v *visit) copied(p []byte) error {
	spare := spares.Get().(*[writeChunk]byte)
	_, err := v.Write(spare[:copy(spare[:], p)])
	if err == nil {
		spares.Put(spare)
	}
	return err
}

var typeJSON = []string{"application/json"}

// json answers with a JSON document.
func (v *visit) json(status int, body []byte) {
	v.traceOut(body)
	h := v.Header()
	h["Content-Type"] = typeJSON
	if len(body) > 1024 { // net/http counts shorter ones itself
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	v.WriteHeader(status)
	v.send(body) // a client that is gone is nobody to tell
}

// empty answers without a body.
func (v *visit) empty(status int) {
	v.WriteHeader(status)
}
