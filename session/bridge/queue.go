package bridge

// Outgoing is one message on its way to a client.
type Outgoing struct {
	Buf *Buffer
	// Ask is the front end's id when the message is a request of the worker.
	Ask uint64
	// Final marks the response of a call.
	Final bool
	// Code is the code of a response that is an error; 0: it is none.
	Code int
	// Translated marks a response that was put into the client's era.
	Translated bool
}

// Queue holds what waits for one stream. It is bounded: when it is full the
// oldest notifications make room; requests and responses stay. The zero value is
// an empty queue. It takes no lock.
type Queue struct {
	items []Outgoing
	head  int
	bytes int
	small [1]Outgoing // most calls have one message
}

// Bounds of a queue.
type Bounds struct{ Messages, Bytes int }

// Len and Bytes say how much waits.
func (q *Queue) Len() int   { return len(q.items) - q.head }
func (q *Queue) Bytes() int { return q.bytes }

// Push appends m and takes its buffer over. It returns what had to make room, to
// be freed by the caller: older notifications, or m itself when it is a
// notification and nothing else can go. ok is false, and m still the caller's,
// when m is a request and there is no room; a response always has.
func (q *Queue) Push(m Outgoing, limit Bounds) (dropped []Outgoing, ok bool) {
	for !m.Final && (q.Len() >= limit.Messages || q.Len() > 0 && q.bytes+len(m.Buf.B) > limit.Bytes) {
		old, found := q.dropOldest()
		switch {
		case found:
			dropped = append(dropped, old)
		case m.Ask != 0:
			return dropped, false
		default:
			return append(dropped, m), true
		}
	}
	if q.items == nil {
		q.items = q.small[:0]
	}
	q.items = append(q.items, m)
	q.bytes += len(m.Buf.B)
	return dropped, true
}

// Pop takes the oldest message out.
func (q *Queue) Pop() (Outgoing, bool) {
	if q.Len() == 0 {
		return Outgoing{}, false
	}
	m := q.items[q.head]
	q.items[q.head] = Outgoing{}
	q.head++
	q.bytes -= len(m.Buf.B)
	if q.head == len(q.items) {
		q.head = 0
		if cap(q.items) > 16 {
			q.items = nil
		} else {
			q.items = q.items[:0]
		}
	}
	return m, true
}

// PutBack puts in front what Pop took out last.
func (q *Queue) PutBack(m Outgoing) {
	if q.head > 0 {
		q.head--
		q.items[q.head] = m
	} else {
		q.items = append([]Outgoing{m}, q.items...)
	}
	q.bytes += len(m.Buf.B)
}

// Withdraw takes the request of that id out, when it is still there.
func (q *Queue) Withdraw(ask uint64) (Outgoing, bool) {
	for i := q.head; i < len(q.items); i++ {
		if q.items[i].Ask == ask {
			return q.remove(i), true
		}
	}
	return Outgoing{}, false
}

// Asks are the ids of the requests that wait.
func (q *Queue) Asks() (ids []uint64) {
	for _, m := range q.items[q.head:] {
		if m.Ask != 0 {
			ids = append(ids, m.Ask)
		}
	}
	return ids
}

func (q *Queue) dropOldest() (Outgoing, bool) {
	for i := q.head; i < len(q.items); i++ {
		if q.items[i].Ask == 0 && !q.items[i].Final {
			return q.remove(i), true
		}
	}
	return Outgoing{}, false
}

func (q *Queue) remove(i int) Outgoing {
	m := q.items[i]
	copy(q.items[q.head+1:i+1], q.items[q.head:i])
	q.items[q.head] = m
	m, _ = q.Pop()
	return m
}
