package session_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/session"
	"gatehouse/session/sessiontest"
)

var kept = session.Replay{Events: 4, Bytes: 4096, Keep: time.Minute}

// replaying runs f in a bubble, over a session whose streams are kept.
func replaying(t *testing.T, r session.Replay, f func(w *world, s *session.Session)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, session.Config{Replay: r, Lifetime: session.Lifetime{StreamLossGrace: -1}}, &sessiontest.Spawner{Worker: sessiontest.Echo, InMemory: true})
		f(w, w.open(alice))
	})
}

// said has the worker send a notification that belongs to no call.
func (w *world) said(s *session.Session, data string) {
	w.Helper()
	args := fmt.Sprintf(`"method":"notifications/resources/updated","params":{"uri":%q}`, data)
	if _, err := w.call(s, tool("0", "notify", args)); err != nil {
		w.Fatal(err)
	}
}

// read takes n events and returns what said put into them, and their ids.
func (w *world) read(x *session.Stream, n int) (data, ids []string) {
	w.Helper()
	for range n {
		item, err := x.Next(context.Background(), time.Second)
		if err != nil {
			w.Fatalf("after %q: %v", data, err)
		}
		_, rest, _ := strings.Cut(string(item.Bytes), `"uri":"`)
		text, _, _ := strings.Cut(rest, `"`)
		data, ids = append(data, text), append(ids, string(item.ID))
	}
	return data, ids
}

// nothing checks that nothing is on the stream.
func (w *world) nothing(x *session.Stream) {
	w.Helper()
	if item, err := x.Next(context.Background(), time.Second); !errors.Is(err, session.ErrWait) {
		w.Errorf("got %s, %v", item.Bytes, err)
	}
}

func (w *world) resume(s *session.Session, id string) *session.Stream {
	w.Helper()
	x, err := s.Stream(context.Background(), id)
	if err != nil {
		w.Fatal(err)
	}
	return x
}

func TestReplayOfTheGetStream(t *testing.T) {
	replaying(t, kept, func(w *world, s *session.Session) {
		first := w.stream(s)
		for _, x := range []string{"a", "b", "c"} {
			w.said(s, x)
		}
		_, ids := w.read(first, 3)
		w.nothing(first)
		first.Close()
		w.said(s, "d") // nobody is there
		second := w.resume(s, ids[0])
		data, again := w.read(second, 3)
		if !slices.Equal(data, []string{"b", "c", "d"}) || !slices.Equal(again[:2], ids[1:]) || second.Prime() != nil {
			w.Errorf("got %q as %q, want b, c as before and d", data, again)
		}
		w.nothing(second)
		w.said(s, "e")
		if data, _ := w.read(second, 1); data[0] != "e" {
			w.Errorf("got %q", data)
		}
		w.nothing(second)
		second.Close()
		// What the client showed that it has is not kept: a is gone, and with it the
		// stream from before it.
		fresh := w.resume(s, strings.TrimSuffix(ids[0], ".1")+".0")
		w.nothing(fresh)
		fresh.Close()
	})
}

func TestReplayIsBoundedAndPrivate(t *testing.T) {
	tests := map[string]func(w *world, s *session.Session, ids []string) string{
		"nothing sent":       func(*world, *session.Session, []string) string { return "" },
		"made up":            func(*world, *session.Session, []string) string { return "made-up" },
		"of no stream":       func(_ *world, s *session.Session, _ []string) string { return s.Label() + ".99.1" },
		"of the future":      func(_ *world, s *session.Session, ids []string) string { return ids[0] + "0" },
		"another spelling":   func(_ *world, s *session.Session, ids []string) string { return strings.TrimSuffix(ids[0], "1") + "01" },
		"of another session": func(w *world, _ *session.Session, ids []string) string { return w.open(bob).Label() + ids[0][6:] },
		"too many since": func(w *world, s *session.Session, ids []string) string {
			x := w.resume(s, ids[1])
			for range 5 {
				w.said(s, "x")
			}
			w.read(x, 5)
			w.nothing(x)
			x.Close()
			return ids[1]
		},
		"too much since": func(w *world, s *session.Session, ids []string) string {
			x := w.resume(s, ids[1])
			for range 3 {
				w.said(s, strings.Repeat("x", 2000))
			}
			w.read(x, 3)
			w.nothing(x)
			x.Close()
			return ids[1]
		},
		"too old": func(w *world, _ *session.Session, ids []string) string { time.Sleep(61 * time.Second); return ids[0] },
		"too large": func(w *world, s *session.Session, ids []string) string {
			x := w.resume(s, ids[1])
			w.said(s, strings.Repeat("x", 5000))
			if _, id := w.read(x, 1); id[0] != "" {
				w.Errorf("id %q on an event that can't be kept", id[0])
			}
			w.nothing(x)
			x.Close()
			return ids[1]
		},
	}
	for name, last := range tests {
		t.Run(name, func(t *testing.T) {
			replaying(t, kept, func(w *world, s *session.Session) {
				first := w.stream(s)
				w.said(s, "a")
				w.said(s, "b")
				_, ids := w.read(first, 2)
				w.nothing(first)
				first.Close()
				id := last(w, s, ids)
				fresh := w.resume(s, id)
				defer fresh.Close()
				w.nothing(fresh)
				if p := string(fresh.Prime()); p == "" || slices.Contains(ids, p) {
					t.Errorf("primed with %q: not a fresh stream", p)
				}
			})
		})
	}
}

func TestNoReplayNoIDs(t *testing.T) {
	for _, r := range []session.Replay{{}, {Events: 0, Bytes: 1, Keep: 1}, {Events: 1, Bytes: 0, Keep: 1}, {Events: 1, Bytes: 1, Keep: 0}} {
		replaying(t, r, func(w *world, s *session.Session) {
			x := w.stream(s)
			defer x.Close()
			w.said(s, "a")
			if _, ids := w.read(x, 1); ids[0] != "" || x.Prime() != nil {
				w.Errorf("ids %q and %q", ids, x.Prime())
			}
			call := w.begin(s, tool("1", "echo", ``))
			defer call.Close()
			prime := call.Keep(new(session.Item))
			if item, err := call.Next(context.Background(), 0); err != nil || item.ID != nil || prime != nil {
				w.Errorf("id %q, %q, %v", item.ID, prime, err)
			}
		})
	}
}

func TestPrimingIsForThoseWhoTakeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, session.Config{Replay: kept}, &sessiontest.Spawner{Worker: sessiontest.Echo, InMemory: true})
		s, _, err := w.Open(context.Background(), 0, alice, parse(t, strings.Replace(initialize, "2025-11-25", "2025-06-18", 1)))
		if err != nil {
			t.Fatal(err)
		}
		x := w.stream(s)
		defer x.Close()
		w.said(s, "a")
		if _, ids := w.read(x, 1); x.Prime() != nil || ids[0] == "" {
			t.Errorf("primed with %q, ids %q", x.Prime(), ids)
		}
	})
}

// TestReplayOfACall: a call whose connection broke goes on, and its answer is
// delivered to whoever comes back with the id of its last event.
func TestReplayOfACall(t *testing.T) {
	const text = `{"jsonrpc":"2.0","id":"p","method":"tools/call","params":{"name":"progress","arguments":{"n":3,"ms":1000,"text":"done"},"_meta":{"progressToken":"t"}}}`
	for name, back := range map[string]time.Duration{"before the answer": 500 * time.Millisecond, "after it": 10 * time.Second} {
		t.Run(name, func(t *testing.T) {
			replaying(t, kept, func(w *world, s *session.Session) {
				call := w.begin(s, text)
				prime := string(call.Keep(new(session.Item)))
				item, err := call.Next(context.Background(), 0)
				if err != nil || prime == "" || string(item.ID) == prime {
					t.Fatalf("%q, %s, %v", prime, item.ID, err)
				}
				id := string(item.ID)
				call.Close()
				own := w.stream(s)
				defer own.Close()
				time.Sleep(back)
				x := w.resume(s, id)
				defer x.Close()
				if string(x.Call()) != `"p"` || x.Prime() != nil {
					t.Errorf("call %s, prime %q", x.Call(), x.Prime())
				}
				for i := range 3 {
					item, err := x.Next(context.Background(), 0)
					if err != nil || item.Final != (i == 2) || item.Final != strings.Contains(string(item.Bytes), `"done"`) {
						t.Fatalf("%d: %s, %v", i, item.Bytes, err)
					}
				}
				if _, err := x.Next(context.Background(), 0); !errors.Is(err, session.ErrDone) {
					t.Errorf("then %v", err)
				}
				w.nothing(own) // which was not replaced
			})
		})
	}
}

// A call without a connection is nobody's evidence of presence, and is not asked.
func TestDetachedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := session.Lifetime{Idle: time.Hour, StreamLossGrace: -1}
		w := newWorld(t, session.Config{Replay: kept, Lifetime: l}, &sessiontest.Spawner{Worker: sessiontest.Echo, InMemory: true})
		s := w.open(alice)
		call := w.begin(s, tool("1", "ask", `"method":"roots/list","ms":1`))
		call.Keep(new(session.Item))
		call.Close() // with the question in its queue, or before it comes
		other := w.begin(s, tool("2", "ask", `"method":"roots/list"`))
		defer other.Close()
		item, err := other.Next(context.Background(), 0)
		if err != nil || !strings.Contains(string(item.Bytes), "roots/list") {
			t.Errorf("got %s, %v", item.Bytes, err)
		}
		never := w.begin(s, tool("3", "never", ``))
		never.Keep(new(session.Item))
		never.Close()
		start := time.Now()
		other.Close()
		for len(w.List()) > 0 && time.Since(start) < 3*time.Hour {
			time.Sleep(time.Minute)
		}
		if d := time.Since(start); d < time.Hour || d > time.Hour+3*time.Minute {
			t.Errorf("ended after %v", d)
		}
	})
}

// The worker's death reaches whoever reads the rest of a call.
func TestResumedCallOfADeadWorker(t *testing.T) {
	replaying(t, kept, func(w *world, s *session.Session) {
		call := w.begin(s, tool("1", "die", `"ms":5000`))
		prime := string(call.Keep(new(session.Item)))
		call.Close()
		x := w.resume(s, prime)
		defer x.Close()
		if _, err := x.Next(context.Background(), 0); !errors.Is(err, session.ErrGone) {
			t.Errorf("got %v", err)
		}
	})
}

// Two connections on one call's stream: the newest reads on.
func TestNewestReaderOfACall(t *testing.T) {
	replaying(t, kept, func(w *world, s *session.Session) {
		call := w.begin(s, tool("1", "echo", `"ms":5000,"text":"late"`))
		prime := string(call.Keep(new(session.Item)))
		call.Close()
		older := w.resume(s, prime)
		newer := w.resume(s, prime)
		defer newer.Close()
		if _, err := older.Next(context.Background(), 0); !errors.Is(err, session.ErrReplaced) {
			t.Errorf("the older one got %v", err)
		}
		older.Close()
		if item, err := newer.Next(context.Background(), 0); err != nil || !item.Final || toolText(item.Bytes) != "late" {
			t.Errorf("the newer one got %s, %v", item.Bytes, err)
		}
	})
}

// What is kept is given back in time.
func TestReplayMemoryIsGivenBack(t *testing.T) {
	replaying(t, kept, func(w *world, s *session.Session) {
		for i := range 300 {
			x := w.begin(s, tool(fmt.Sprint(i), "echo", `"text":"`+strings.Repeat("x", 3000)+`"`))
			x.Keep(new(session.Item))
			if _, err := x.Next(context.Background(), 0); err != nil {
				t.Fatal(err)
			}
			x.Close()
		}
		if n, bytes := session.Kept(s); n > 128 || bytes > 4*4096 {
			t.Errorf("%d streams and %d bytes are kept", n, bytes)
		}
		time.Sleep(3 * time.Minute)
		if n, bytes := session.Kept(s); n != 0 || bytes != 0 {
			t.Errorf("%d streams and %d bytes are kept after their time", n, bytes)
		}
	})
}

// What a client could not be sent is not sent twice when another connection has gone on
// with its stream meanwhile, and is over before the first.
func TestReplayAndABlockedStream(t *testing.T) {
	for name, c := range map[string]struct {
		from string // the Last-Event-ID of the second connection, without the stream
		want []string
	}{"that got it again": {".0", []string{"a", "b"}}, "of a client that has it": {".1", []string{"b"}}} {
		t.Run(name, func(t *testing.T) {
			replaying(t, kept, func(w *world, s *session.Session) {
				blocked := w.stream(s)
				w.said(s, "a")
				_, ids := w.read(blocked, 1)
				second := w.resume(s, strings.TrimSuffix(ids[0], ".1")+c.from)
				w.said(s, "b")
				data, ids := w.read(second, len(c.want))
				if !slices.Equal(data, c.want) {
					w.Errorf("the second connection got %q", data)
				}
				w.nothing(second)
				second.Close()
				blocked.Close()
				third := w.resume(s, ids[len(ids)-1])
				defer third.Close()
				w.nothing(third)
			})
		})
	}
	t.Run("nothing followed", func(t *testing.T) {
		replaying(t, kept, func(w *world, s *session.Session) {
			blocked := w.stream(s)
			w.said(s, "a")
			_, ids := w.read(blocked, 1)
			second := w.resume(s, ids[0])
			second.Close()
			blocked.Close()
			third := w.resume(s, ids[0])
			defer third.Close()
			w.nothing(third)
		})
	})
}

// A stream that goes on where another broke has what is still kept, also when what
// came before that grew too old meanwhile.
func TestReplayGrowsOldMeanwhile(t *testing.T) {
	replaying(t, kept, func(w *world, s *session.Session) {
		first := w.stream(s)
		time.Sleep(30 * time.Second)
		w.said(s, "a")
		_, ids := w.read(first, 1)
		time.Sleep(40 * time.Second)
		w.said(s, "b")
		w.said(s, "c")
		w.read(first, 2)
		w.nothing(first)
		first.Close()
		second := w.resume(s, strings.TrimSuffix(ids[0], ".1")+".0")
		defer second.Close()
		time.Sleep(50 * time.Second) // a pass at 2:00 drops a
		if data, _ := w.read(second, 2); !slices.Equal(data, []string{"b", "c"}) {
			w.Errorf("got %q", data)
		}
		w.nothing(second)
	})
}

// Many calls that stream are no reason to forget the session's own stream.
func TestReplayOfManyStreams(t *testing.T) {
	replaying(t, kept, func(w *world, s *session.Session) {
		get := w.stream(s)
		w.said(s, "a")
		_, ids := w.read(get, 1)
		w.nothing(get)
		for n := range 200 {
			x := w.begin(s, tool(fmt.Sprint(n), "echo", `"text":"x"`))
			x.Keep(new(session.Item))
			if item, err := x.Next(context.Background(), time.Second); err != nil || !item.Final || item.ID == nil {
				w.Fatalf("call %d: %s, id %q, %v", n, item.Bytes, item.ID, err)
			}
			x.Close()
		}
		get.Close()
		w.said(s, "b")
		again := w.resume(s, ids[0])
		defer again.Close()
		if data, id := w.read(again, 1); data[0] != "b" || strings.TrimSuffix(id[0], ".2") != strings.TrimSuffix(ids[0], ".1") {
			w.Errorf("got %q as %q: a fresh stream", data, id)
		}
	})
}

// What is said on a stream that was forgotten has no id and counts nowhere.
func TestReplayOfAForgottenStream(t *testing.T) {
	replaying(t, kept, func(w *world, s *session.Session) {
		long := w.begin(s, `{"jsonrpc":"2.0","id":"p","method":"tools/call","params":{"name":"progress","arguments":{"n":3,"ms":5000},"_meta":{"progressToken":"t"}}}`)
		defer long.Close()
		long.Keep(new(session.Item))
		for range 128 {
			w.resume(s, "").Close()
		}
		for final := false; !final; {
			item, err := long.Next(context.Background(), 0)
			if err != nil || item.ID != nil {
				w.Fatalf("id %q, %v", item.ID, err)
			}
			final = item.Final
		}
		time.Sleep(3 * time.Minute)
		if n, bytes := session.Kept(s); n != 0 || bytes != 0 {
			w.Errorf("%d streams and %d bytes are kept after their time", n, bytes)
		}
	})
}
