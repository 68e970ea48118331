package session

import (
	"cmp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Replay bounds what is kept of each stream, so that a client that lost it can have
// what it missed (MCP 2025-11-25, Transports, "Resumability and Redelivery"). If one
// of them is 0 nothing is kept, and no event has an id.
type Replay struct {
	Events int
	Bytes  int
	Keep   time.Duration
}

func (r Replay) on() bool { return r.Events > 0 && r.Bytes > 0 && r.Keep > 0 }

// Bounds of all that a session keeps: bytes as a multiple of Replay.Bytes, and
// streams.
const (
	replayFactor = 4
	replayTracks = 128
)

// primed is the version whose clients take an event without data.
const primed = "2025-11-25"

// event is one message that was sent, or would have been.
type event struct {
	seq   uint64
	at    time.Time
	b     []byte // never changed
	final bool
}

// track is one stream as its client sees it: it may go over several connections,
// one after the other.
type track struct {
	id     uint64
	events []event // oldest first
	bytes  int
	last   uint64 // number of the newest event
	lost   uint64 // events up to this one are not kept any more
	has    uint64 // events up to this one the client has shown to have
	used   time.Time

	// Of a call's stream.
	call   []byte    // the client's id of the call; nil: a GET stream
	x      *Exchange // once the connection of the POST is gone
	reader *Stream   // the GET that goes on with it
	over   error     // why nothing follows
}

// replay is what a session keeps of its streams.
type replay struct {
	bounds Replay
	tag    string // tells this session's ids from those of others
	now    func() time.Time

	mu     sync.Mutex // guards what follows and the tracks
	tracks map[uint64]*track
	count  uint64 // of tracks ever
	bytes  int
}

// begin starts a track; nil when nothing is kept.
func (r *replay) begin(call []byte) *track {
	if !r.bounds.on() {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	t := &track{id: r.count, call: call, used: r.now()}
	if r.tracks == nil {
		r.tracks = map[uint64]*track{}
	}
	r.tracks[t.id] = t
	for len(r.tracks) > replayTracks {
		r.forget(r.oldest(t))
	}
	return t
}

// oldest is the track to forget before all others but that one, r.mu held: the oldest
// whose call is over, else the oldest; nil: there is no other.
func (r *replay) oldest(but *track) (found *track) {
	var over *track
	for _, t := range r.tracks {
		switch {
		case t == but:
			continue
		case t.over != nil && t.reader == nil && (over == nil || t.id < over.id):
			over = t
		}
		if found == nil || t.id < found.id {
			found = t
		}
	}
	return cmp.Or(over, found)
}

// forget drops a track: its ids are unknown from now on, and nothing more of it is
// kept. r.mu is held.
func (r *replay) forget(t *track) {
	r.drop(t, len(t.events))
	delete(r.tracks, t.id)
}

// drop drops the n oldest events of a track, r.mu held.
func (r *replay) drop(t *track, n int) {
	for _, e := range t.events[:n] {
		t.lost = e.seq
		t.bytes -= len(e.b)
		r.bytes -= len(e.b)
	}
	clear(t.events[:n])
	if t.events = t.events[n:]; len(t.events) == 0 {
		t.events = nil
	}
}

// name appends the id of an event to b. It holds nothing that a client could use but
// by sending it back.
func (r *replay) name(b []byte, t *track, seq uint64) []byte {
	b = append(b, r.tag...)
	b = strconv.AppendUint(append(b, '.'), t.id, 10)
	return strconv.AppendUint(append(b, '.'), seq, 10)
}

// add makes a message the next event of its track, and returns its number; kept is
// false when it is too large for that, or the track was forgotten, and it has no id.
func (r *replay) add(t *track, b []byte, final bool) (seq uint64, kept bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.last++
	now := r.now()
	t.used = now
	if final {
		t.over = ErrDone
	}
	if t.reader != nil {
		defer t.reader.wake()
	}
	if len(b) > r.bounds.Bytes || r.tracks[t.id] != t {
		r.drop(t, len(t.events))
		t.lost = t.last
		return t.last, false
	}
	t.events = append(t.events, event{t.last, now, append([]byte(nil), b...), final})
	t.bytes += len(b)
	r.bytes += len(b)
	r.trim(t, now)
	for r.bytes > replayFactor*r.bounds.Bytes {
		other := r.oldest(t)
		if other == nil {
			break
		}
		r.forget(other)
	}
	return t.last, true
}

// trim drops what is beyond the bounds of a track, r.mu held.
func (r *replay) trim(t *track, now time.Time) {
	n, bytes := 0, t.bytes
	for _, e := range t.events {
		if len(t.events)-n <= r.bounds.Events && bytes <= r.bounds.Bytes && now.Sub(e.at) <= r.bounds.Keep {
			break
		}
		bytes -= len(e.b)
		n++
	}
	if n > 0 {
		r.drop(t, n)
	}
}

// takeBack undoes the newest add, of a message that this connection did not send. It
// returns false when another connection has gone on with the track meanwhile: then the
// client has the message, or has it to come.
func (r *replay) takeBack(t *track, seq uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.last != seq || t.has >= seq {
		return false
	}
	if n := len(t.events) - 1; n >= 0 && t.events[n].seq == seq {
		t.bytes -= len(t.events[n].b)
		r.bytes -= len(t.events[n].b)
		t.events = t.events[:n]
		t.last--
	}
	return true
}

// after returns the next event after that one which is kept. missed says that those
// between are not any more.
func (r *replay) after(t *track, seq uint64) (e event, ok, missed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	missed = t.lost > seq
	if t.last <= seq { // as always but after a break
		return e, false, missed
	}
	for _, e := range t.events {
		if e.seq > seq {
			return e, true, missed
		}
	}
	return e, false, missed
}

// find returns the track of a Last-Event-ID of which nothing is missing, and the
// event's number. What the client has is not kept any longer. Unknown ids, those of
// other sessions and those of which something is gone are alike.
func (r *replay) find(id string) (*track, uint64, bool) {
	rest, ok := strings.CutPrefix(id, r.tag+".")
	first, second, both := strings.Cut(rest, ".")
	if !ok || !both || !r.bounds.on() {
		return nil, 0, false
	}
	n, bad := strconv.ParseUint(first, 10, 63)
	seq, worse := strconv.ParseUint(second, 10, 63)
	if bad != nil || worse != nil || strconv.FormatUint(n, 10) != first || strconv.FormatUint(seq, 10) != second {
		return nil, 0, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tracks[n]
	if t == nil {
		return nil, 0, false
	}
	r.trim(t, r.now())
	if seq < t.lost || seq > t.last {
		return nil, 0, false
	}
	has := 0
	for has < len(t.events) && t.events[has].seq <= seq {
		has++
	}
	r.drop(t, has)
	t.has, t.used = max(t.has, seq), r.now()
	return t, seq, true
}

// finish says that nothing follows on a call's track.
func (r *replay) finish(t *track, why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.over == nil {
		t.over = why
	}
	t.x = nil
	if t.reader != nil {
		t.reader.wake()
	}
}

// sweep drops what has been kept for long enough; open is the GET stream.
func (r *replay) sweep(open *Stream) {
	if !r.bounds.on() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	for _, t := range r.tracks {
		r.trim(t, now)
		busy := t.x != nil || t.reader != nil || open != nil && open.track == t || t.call != nil && t.over == nil
		if len(t.events) == 0 && !busy && now.Sub(t.used) > r.bounds.Keep {
			delete(r.tracks, t.id)
		}
	}
}
