package router

import "net/http"

// events writes one response as a stream of events (HTML, "Server-sent events").
// Each event holds one complete JSON-RPC message on one data line. It has an id only
// while the session keeps the stream. Comments keep it open; an event without data
// would break clients that parse every one, so that only the first may be one, for
// those whose version knows it.
type events struct {
	v     *visit
	ctrl  *http.ResponseController
	begun bool   // a message was sent
	head  []byte // of an event, used again
}

// retry says how long to wait before a stream that broke is opened again, in
// milliseconds. It stands in the first event and not alone before it, because some
// clients take any block for an event and parse its data.
const retry = "retry: 3000\n"

var (
	typeEvents  = []string{"text/event-stream"}
	noCache     = []string{"no-cache, no-transform"}
	noBuffering = []string{"no"}
	blankLine   = []byte("\n\n")
	silence     = []byte(":\n\n")
)

// stream begins the response. Headers and a comment are flushed at once: some
// proxies pass headers on with the first byte of the body only.
func (v *visit) stream() (*events, error) {
	h := v.Header()
	h["Content-Type"] = typeEvents
	h["Cache-Control"] = noCache
	h["X-Accel-Buffering"] = noBuffering
	v.WriteHeader(http.StatusOK)
	e := &events{v: v, ctrl: http.NewResponseController(v.ResponseWriter)}
	return e, e.comment()
}

// prime sends the id of an event without data, unless it is nil.
func (e *events) prime(id []byte) error {
	if id == nil {
		return nil
	}
	e.begun = true
	e.v.arm()
	if _, err := e.v.Write(append(append([]byte("id: "), id...), "\n"+retry+"data: \n\n"...)); err != nil {
		return err
	}
	return e.flush()
}

// message sends one message, which holds neither CR nor LF.
func (e *events) message(b []byte) error { return e.event(b, nil) }

// event sends one message as the event of that id; nil: it has none.
func (e *events) event(b, id []byte) error {
	e.v.traceOut(b)
	e.v.arm()
	head := e.head[:0]
	if id != nil {
		head = append(append(append(head, "id: "...), id...), '\n')
	}
	if !e.begun {
		e.begun, head = true, append(head, retry...)
	}
	e.head = append(head, "event: message\ndata: "...)
	if _, err := e.v.Write(e.head); err != nil {
		return err
	}
	if err := e.v.send(b); err != nil {
		return err
	}
	if _, err := e.v.Write(blankLine); err != nil {
		return err
	}
	return e.flush()
}

// comment sends a line that clients pass over.
func (e *events) comment() error {
	e.v.arm()
	if _, err := e.v.Write(silence); err != nil {
		return err
	}
	return e.flush()
}

func (e *events) flush() error {
	err := e.ctrl.Flush()
	e.v.disarm()
	return err
}
