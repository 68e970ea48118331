package session

import (
	"sync"
	"time"

	"gatehouse/session/bridge"
)

// outboxBounds bound what waits for a session's GET stream.
var outboxBounds = bridge.Bounds{Messages: 256, Bytes: 4 << 20}

// askHold is how long a worker's request waits for a GET stream: a client opens
// its first one after it has said that it is initialized, which is when many
// workers ask for the roots.
const askHold = 5 * time.Second

// outbox holds the messages that belong to no call, until the GET stream takes
// them. Notifications wait for a stream within the bounds; log messages and the
// progress of tasks do not.
type outbox struct {
	refuse func(id uint64) // tells the worker that its request goes nowhere

	mu     sync.Mutex // guards what follows
	queue  bridge.Queue
	stream *Stream // the open one
	had    bool    // there was one, and it was not us who ended it
	over   error   // why there is none any more
	missed int     // notifications that had to make room
	probe  probe
}

// state says whether a stream is open, and whether one ever was.
func (o *outbox) state() (open, had bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.stream != nil, o.had
}

// notification takes a notification; a fleeting one only while somebody listens.
func (o *outbox) notification(fleeting bool, b *bridge.Buffer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over != nil || fleeting && o.stream == nil {
		b.Free()
		return
	}
	o.push(bridge.Outgoing{Buf: b})
}

// push queues m, o.mu held. It returns false, and leaves the buffer, for a request
// without room.
func (o *outbox) push(m bridge.Outgoing) bool {
	dropped, ok := o.queue.Push(m, outboxBounds)
	for _, d := range dropped {
		d.Buf.Free()
		o.missed++
	}
	if ok && o.stream != nil {
		o.stream.wake()
	}
	return ok
}

// ask takes a request of the worker.
func (o *outbox) ask(id uint64, b *bridge.Buffer) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over != nil || !o.push(bridge.Outgoing{Buf: b, Ask: id}) {
		return false
	}
	if o.stream == nil {
		o.hold(id)
	}
	return true
}

// hold gives a request askHold to find a stream, o.mu held.
func (o *outbox) hold(id uint64) {
	time.AfterFunc(askHold, func() {
		if open, _ := o.state(); !open && o.withdraw(id) {
			o.refuse(id)
		}
	})
}

// withdraw takes a request back that no stream has taken.
func (o *outbox) withdraw(id uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	m, ok := o.queue.Withdraw(id)
	if ok {
		m.Buf.Free()
	}
	return ok
}

// end closes the stream and drops what waits; the worker hears that its requests go
// nowhere. It returns how many messages no client ever got.
func (o *outbox) end(why error) (missed int) {
	o.mu.Lock()
	if o.over == nil {
		o.over = why
	}
	unasked := o.queue.Asks()
	for m, ok := o.queue.Pop(); ok; m, ok = o.queue.Pop() {
		m.Buf.Free()
		o.missed++
	}
	if o.stream != nil {
		o.stream.wake()
	}
	missed, o.missed = o.missed, 0
	o.mu.Unlock()
	for _, id := range unasked {
		o.refuse(id)
	}
	return missed
}
