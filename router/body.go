package router

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	bodyRate  = 8 << 10  // bytes a second: what has arrived earns more time
	smallBody = 4 << 10  // what a pooled buffer holds at first
	keepBody  = 64 << 10 // larger ones do not go back to the pool
)

var bodies = sync.Pool{New: func() any { b := make([]byte, 0, smallBody); return &b }}

// readBody reads a body of at most limit bytes into a pooled buffer, which
// giveBack returns to the pool. The limit is on what arrives, so that it holds
// for bodies of unknown length too.
func readBody(v *visit, r *http.Request, limit int64) (*[]byte, *refusal) {
	if r.ContentLength > limit {
		return nil, tooLarge(v, r)
	}
	p := bodies.Get().(*[]byte)
	b := (*p)[:0]
	if n := int(r.ContentLength); n > cap(b) {
		b = make([]byte, 0, min(n+1, keepBody)) // more only as it arrives
	}
	d, _ := v.ResponseWriter.(deadliner)
	for {
		if d != nil && (len(b) > 0 || r.ProtoMajor != 1) { // of HTTP/1 the door has set the first
			d.SetReadDeadline(v.start.Add(v.pace.body + time.Duration(len(b)/bodyRate)*time.Second))
		}
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := r.Body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		*p = b
		if int64(len(b)) > limit {
			giveBack(p)
			return nil, tooLarge(v, r)
		}
		if err == io.EOF || err == nil && int64(len(b)) == r.ContentLength {
			break
		}
		if err != nil {
			giveBack(p)
			return nil, unread(v, r, err)
		}
	}
	if d != nil && r.ProtoMajor != 1 { // of HTTP/1 net/http lifts the limit at the body's end
		d.SetReadDeadline(time.Time{})
	}
	return p, nil
}

func tooLarge(v *visit, r *http.Request) *refusal {
	hangUp(v, r)
	return &refusal{kind: kindTooLarge, reason: "body longer than the limit"}
}

func unread(v *visit, r *http.Request, err error) *refusal {
	hangUp(v, r)
	reason := "read the body: " + err.Error()
	if errors.Is(err, io.ErrUnexpectedEOF) {
		reason = "the body ended early"
	}
	return &refusal{kind: kindBody, reason: reason}
}

// hangUp ends an HTTP/1 connection with the answer, because the rest of the body
// would have to be read first.
func hangUp(v *visit, r *http.Request) {
	if r.ProtoMajor == 1 {
		v.Header().Set("Connection", "close")
	}
}

// giveBack returns a buffer, unless it grew so large that keeping it is waste.
func giveBack(p *[]byte) {
	if cap(*p) <= keepBody {
		bodies.Put(p)
	}
}
