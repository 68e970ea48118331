package router

import (
	"net/http"
	"sync/atomic"
	"time"
)

// second is a second and the Date field of the responses in it. net/http writes one of
// its own for each response that has none.
type second struct {
	unix int64
	date []string
}

var lastSecond atomic.Pointer[second]

// date is the Date field of a response (RFC 9110 section 6.6.1), which is not to be
// changed.
func date(now time.Time) []string {
	s := lastSecond.Load()
	if s == nil || s.unix != now.Unix() {
		s = &second{now.Unix(), []string{now.UTC().Format(http.TimeFormat)}}
		lastSecond.Store(s)
	}
	return s.date
}
