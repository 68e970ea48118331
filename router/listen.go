package router

import (
	"errors"
	"net/http"

	"gatehouse/auth"
	"gatehouse/session"
)

// listen opens a session's stream of messages that belong to no call (MCP
// 2025-11-25, Transports, "Listening for Messages from the Server"). Clients take
// 405 and nothing else for "there is none".
func (d *Door) listen(v *visit, r *http.Request, s *server, c auth.Caller) {
	x, e, err := d.openStream(v, r, s, &c)
	if x == nil {
		return
	}
	defer x.Close()
	for err == nil {
		var item session.Item
		item, err = x.Next(r.Context(), v.pace.keepalive)
		switch {
		case err == nil:
			if err = e.event(item.Bytes, item.ID); item.Final && err == nil {
				return // the rest of a call's stream, and all of it
			}
		case errors.Is(err, session.ErrWait):
			err = e.comment()
		}
	}
	d.closeStream(v, r, s, x, e, err)
}

// openStream opens the session's stream and begins the response; without a stream it
// has refused the request. It is apart from listen, and not inlined, so that the stack
// which it needs is not held by each stream that waits (TestStackOfAWaitingStream).
//
//go:noinline
func (d *Door) openStream(v *visit, r *http.Request, s *server, c *auth.Caller) (*session.Stream, *events, error) {
	v.line.Message = "listen"
	if _, ref := v.ask(r, nil).choose(); ref != nil {
		v.refuse(ref)
		return nil, nil, nil
	}
	if !accepts(r.Header["Accept"]).events {
		v.refuse(&refusal{kind: kindAccept, reason: "Accept does not admit events"})
		return nil, nil, nil
	}
	sess, ref := d.find(v, r, s, *c, nil)
	if ref != nil {
		v.refuse(ref)
		return nil, nil, nil
	}
	x, err := sess.Stream(r.Context(), r.Header.Get("Last-Event-ID"))
	switch {
	case errors.Is(err, session.ErrGone):
		v.refuse(unknownSession(err.Error(), nil))
		return nil, nil, nil
	case err != nil:
		v.refuse(fromSession(s, err, nil))
		return nil, nil, nil
	}
	e, err := v.stream()
	if err == nil {
		err = e.prime(x.Prime())
	}
	return x, e, err
}

// closeStream says why a stream has ended, and ends the response of a call's.
//
//go:noinline
func (d *Door) closeStream(v *visit, r *http.Request, s *server, x *session.Stream, e *events, err error) {
	if id := x.Call(); id != nil && failedCall(err) {
		d.broken(v, r, s, e, id, err)
		return
	}
	v.line.Kind, v.line.Reason = "streamEnded", err.Error()
}

// failedCall says whether a call's stream ends with an error response.
func failedCall(err error) bool {
	return errors.Is(err, session.ErrGone) || errors.Is(err, session.ErrTimeout)
}

// end ends a session at its client's wish.
func (d *Door) end(v *visit, r *http.Request, s *server, c auth.Caller) {
	v.line.Message = "end"
	if _, ref := v.ask(r, nil).choose(); ref != nil {
		v.refuse(ref)
		return
	}
	sess, ref := d.find(v, r, s, c, nil)
	if ref != nil {
		v.refuse(ref)
		return
	}
	sess.End("ended by its client")
	v.empty(http.StatusOK)
}
