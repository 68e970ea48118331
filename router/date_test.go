package router

import (
	"net/http"
	"testing"
	"time"
)

func TestDate(t *testing.T) {
	start := time.Date(2026, 11, 30, 1, 59, 59, 0, time.FixedZone("somewhere", 3600))
	for _, c := range []struct {
		after time.Duration
		want  string
	}{
		{0, "Mon, 30 Nov 2026 00:59:59 GMT"}, {999 * time.Millisecond, "Mon, 30 Nov 2026 00:59:59 GMT"},
		{time.Second, "Mon, 30 Nov 2026 01:00:00 GMT"}, {0, "Mon, 30 Nov 2026 00:59:59 GMT"}, {24 * time.Hour, "Tue, 01 Dec 2026 00:59:59 GMT"},
	} {
		if got := date(start.Add(c.after)); len(got) != 1 || got[0] != c.want {
			t.Errorf("after %v: %q, want %q", c.after, got, c.want)
		}
	}
}

// TestResponsesHaveADate: one, and that of now, in both versions of HTTP.
func TestResponsesHaveADate(t *testing.T) {
	r := newRig(t, echoing())
	for version := range r.clients {
		before := time.Now().Truncate(time.Second)
		resp, _ := r.do(version, post("/mcp", initBody, headers(r.mint())))
		got := resp.Header["Date"]
		if len(got) != 1 {
			t.Fatalf("%s: %q", version, got)
		}
		if at, err := http.ParseTime(got[0]); err != nil || at.Before(before) || at.After(time.Now()) {
			t.Errorf("%s: %q at %v: %v", version, got, before, err)
		}
	}
}
