package bridge

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func note(text string) Outgoing { return Outgoing{Buf: &Buffer{B: []byte(text)}} }

func popAll(q *Queue) (texts []string) {
	for m, ok := q.Pop(); ok; m, ok = q.Pop() {
		texts = append(texts, string(m.Buf.B))
	}
	return texts
}

func TestQueueDropsTheOldestNotifications(t *testing.T) {
	var q Queue
	limit := Bounds{Messages: 3, Bytes: 1000}
	push := func(m Outgoing) (dropped []string, ok bool) {
		d, ok := q.Push(m, limit)
		for _, m := range d {
			dropped = append(dropped, string(m.Buf.B))
		}
		return dropped, ok
	}
	request, response := note("request"), note("response")
	request.Ask, response.Final = 7, true
	for i, m := range []Outgoing{note("a"), request, note("b")} {
		if d, ok := push(m); d != nil || !ok {
			t.Errorf("push %d: %v %v", i, d, ok)
		}
	}
	if d, ok := push(note("c")); !ok || !slices.Equal(d, []string{"a"}) {
		t.Errorf("a fourth: %v %v", d, ok)
	}
	if d, ok := push(response); !ok || d != nil || q.Len() != 4 {
		t.Errorf("a response: %v %v", d, ok)
	}
	if got := popAll(&q); !slices.Equal(got, []string{"request", "b", "c", "response"}) || q.Bytes() != 0 {
		t.Errorf("got %q, %d bytes", got, q.Bytes())
	}
}

func TestQueueFullOfRequests(t *testing.T) {
	var q Queue
	for id := uint64(1); id <= 2; id++ {
		m := note(fmt.Sprint(id))
		m.Ask = id
		if _, ok := q.Push(m, Bounds{2, 1000}); !ok {
			t.Fatal("no room for the first two")
		}
	}
	third := note("3")
	third.Ask = 3
	if d, ok := q.Push(third, Bounds{2, 1000}); ok || d != nil {
		t.Errorf("a request beyond the bound: %v %v", d, ok)
	}
	if d, ok := q.Push(note("n"), Bounds{2, 1000}); !ok || len(d) != 1 || string(d[0].Buf.B) != "n" {
		t.Errorf("a notification beyond the bound: %v %v", d, ok)
	}
	if got := q.Asks(); !slices.Equal(got, []uint64{1, 2}) {
		t.Errorf("asks %v", got)
	}
	if m, ok := q.Withdraw(1); !ok || string(m.Buf.B) != "1" {
		t.Error("the first request is not there")
	}
	if _, ok := q.Withdraw(1); ok {
		t.Error("it is there twice")
	}
	if got := popAll(&q); !slices.Equal(got, []string{"2"}) {
		t.Errorf("got %q", got)
	}
}

func TestQueueBoundOfBytes(t *testing.T) {
	var q Queue
	limit := Bounds{Messages: 100, Bytes: 10}
	for range 5 {
		q.Push(note("1234"), limit)
	}
	if q.Len() != 2 || q.Bytes() != 8 {
		t.Errorf("%d messages, %d bytes", q.Len(), q.Bytes())
	}
	// One that is larger than the bound alone still passes.
	if d, ok := q.Push(note(strings.Repeat("x", 50)), limit); !ok || len(d) != 2 || q.Len() != 1 {
		t.Errorf("dropped %d, %d left", len(d), q.Len())
	}
}

func TestLedger(t *testing.T) {
	var l ledger
	l.add(5)
	l.add(9)
	for _, c := range []struct {
		id   uint64
		late bool
	}{{5, true}, {5, false}, {7, false}, {9, true}, {9, false}} {
		if got := l.late(c.id); got != c.late {
			t.Errorf("%d: %v", c.id, got)
		}
	}
	for id := uint64(10); id < 10+2*ledgerSize; id++ {
		l.add(id)
	}
	if len(l.ids) != ledgerSize || !l.late(10) || !l.late(10+2*ledgerSize-1) || l.late(10+2*ledgerSize) {
		t.Errorf("%d ids, floor %d", len(l.ids), l.floor)
	}
}

func TestParseID(t *testing.T) {
	for raw, want := range map[string]uint64{"0": 0, "7": 7, "1234567890123456789": 1234567890123456789} {
		if got, ok := parseID([]byte(raw)); !ok || got != want {
			t.Errorf("%s: %d %v", raw, got, ok)
		}
	}
	for _, raw := range []string{"", `"1"`, "-1", "1.0", "1e2", "01", "00", "12345678901234567890", "x"} {
		if got, ok := parseID([]byte(raw)); ok {
			t.Errorf("%s is read as %d", raw, got)
		}
	}
}
