package spawn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// writeLimit is how long the monitor may leave the socket full. It reads all the
// time, so a monitor that does not is as good as gone.
const writeLimit = 10 * time.Second

// errGone is the answer to everything once the monitor is gone.
var errGone = &Error{Kind: KindUnavailable, Reason: "the monitor is gone"}

// Client is the front end's end of the conversation with the monitor. It is safe
// for concurrent use.
type Client struct {
	conn   *Conn
	onCert func(cert, key *os.File)
	Events Events
	done   chan struct{} // closed when the conversation is over

	wmu sync.Mutex // orders sequence numbers and writes
	seq uint64     // last one used; guarded by wmu

	mu      sync.Mutex              // guards what follows
	pending map[uint64]func(answer) // by what SPAWN and RENEW are answered: once, and without blocking
	live    map[uint64]*worker      // by handle
	err     error                   // why the conversation is over
}

// Events are what the monitor asks or brings by itself. They are called from the
// reading goroutine and must not block. Nil ones are not answered. They must be set
// before Ready.
type Events struct {
	// Plan takes the front end's part of a newer configuration, which it must close.
	Plan func(f *os.File)
	// Sessions describes all sessions; Seq is set for it.
	Sessions func() []SessionStatus
}

// answer is what came for a request.
type answer struct {
	frame Frame
	w     *worker // with Spawned
	err   error   // a *Error: refused, or the monitor is gone
}

var _ Spawner = (*Client)(nil)

// NewClient takes over socket, the descriptor on which the monitor started us
// (a non-blocking SOCK_SEQPACKET socket), and begins to read it. onCert, which
// may be nil, is called from the reading goroutine with descriptors of a new
// certificate and key, which it must close; it must not block.
func NewClient(socket *os.File, onCert func(cert, key *os.File)) (*Client, error) {
	conn, err := NewConn(socket, spawnedFDs)
	if err != nil {
		return nil, err
	}
	c := &Client{
		conn:    conn,
		onCert:  onCert,
		done:    make(chan struct{}),
		pending: make(map[uint64]func(answer)),
		live:    make(map[uint64]*worker),
	}
	go c.read()
	return c, nil
}

// Ready tells the monitor that the front end serves. It must be called once,
// before the first Spawn.
func (c *Client) Ready() error {
	return c.send(func(uint64) Frame { return Hello{Version: ProtocolVersion} })
}

// Done is closed when the monitor is gone: every worker is lost then, and the
// front end should end.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err says why Done is closed; nil before.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the conversation. Running workers are lost.
func (c *Client) Close() error {
	c.fail(errors.New("closed by the front end"))
	<-c.done
	return nil
}

// Spawn implements Spawner.
func (c *Client) Spawn(ctx context.Context, r Request) (Worker, error) {
	if len(r.Token) > MaxToken {
		return nil, &Error{Kind: KindToken, Reason: "token longer than 16 KiB"}
	}
	a, err := c.ask(ctx, func(seq uint64) Frame {
		return SpawnRequest{Seq: seq, Server: r.Server, Token: r.Token}
	})
	if err != nil {
		return nil, err
	}
	if a.w == nil {
		return nil, c.unexpected(a.frame)
	}
	return a.w, nil
}

// ask sends a request and waits for its answer.
func (c *Client) ask(ctx context.Context, request func(seq uint64) Frame) (answer, error) {
	if err := ctx.Err(); err != nil {
		return answer{}, err
	}
	reply := make(chan answer, 1)
	seq := c.request(request, func(a answer) { reply <- a })
	select {
	case a := <-reply:
		return a, a.err
	case <-ctx.Done():
	}
	if !c.forget(seq) { // the answer won the race
		if a := <-reply; a.w != nil {
			a.w.discard()
		}
	}
	return answer{}, ctx.Err()
}

// request sends a request. Its answer comes by a call of done, which must not block.
func (c *Client) request(request func(seq uint64) Frame, done func(answer)) (seq uint64) {
	err := c.send(func(s uint64) Frame {
		seq = s
		c.mu.Lock()
		c.pending[s] = done
		c.mu.Unlock()
		return request(s)
	})
	// If it was forgotten before, end has answered it.
	if err != nil && (seq == 0 || c.forget(seq)) {
		done(answer{err: err})
	}
	return seq
}

// forget drops a request and reports whether its answer was still to come. The
// reader discards a worker that nobody waits for.
func (c *Client) forget(seq uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, waiting := c.pending[seq]
	delete(c.pending, seq)
	return waiting
}

// send writes one frame; sequence numbers reach the monitor in order.
func (c *Client) send(frame func(seq uint64) Frame) error {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	select {
	case <-c.done:
		return errGone
	default:
	}
	c.seq++
	b, err := Encode(frame(c.seq))
	if err != nil {
		return &Error{Kind: KindInternal, Reason: err.Error()}
	}
	if err := c.conn.Write(b, nil, time.Now().Add(writeLimit)); err != nil {
		c.fail(err)
		return errGone
	}
	return nil
}

// read handles what the monitor sends until the conversation ends.
func (c *Client) read() {
	for {
		b, fds, err := c.conn.Read()
		if err == nil {
			err = c.handle(b, fds)
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("the monitor closed the socket")
			}
			c.fail(err)
			c.end()
			return
		}
	}
}

// handle takes one message. An error is a protocol fault; descriptors that
// nobody took over are closed.
func (c *Client) handle(b []byte, fds []int) error {
	f, err := ParseReply(b)
	if err != nil {
		closeAll(fds)
		return err
	}
	want := map[Type]int{TypeSpawned: spawnedFDs, TypeCert: certFDs, TypePlan: planFDs}[f.Type()]
	if len(fds) != want {
		closeAll(fds)
		return fmt.Errorf("%v with %d descriptors", f.Type(), len(fds))
	}
	switch f := f.(type) {
	case Spawned:
		return c.spawned(f, fds)
	case Refused:
		return c.deliver(f.Seq, answer{frame: f, err: &Error{
			Kind: f.Kind, Reason: f.Reason,
			RetryAfter: time.Duration(f.RetryAfter) * time.Millisecond,
		}})
	case Renewed:
		return c.deliver(f.Seq, answer{frame: f})
	case Exited:
		c.exited(f)
	case Cert:
		cert, key := os.NewFile(uintptr(fds[0]), "certificate"), os.NewFile(uintptr(fds[1]), "key")
		if c.onCert == nil {
			cert.Close()
			key.Close()
			return nil
		}
		c.onCert(cert, key)
	case Plan:
		part := os.NewFile(uintptr(fds[0]), "plan")
		if c.Events.Plan == nil {
			part.Close()
			return nil
		}
		c.Events.Plan(part)
	case Report:
		go c.report(f.Seq)
	}
	return nil
}

// report answers a Report.
func (c *Client) report(seq uint64) {
	if c.Events.Sessions != nil {
		for _, s := range c.Events.Sessions() {
			s.Seq = seq
			s.Label = s.Label[:min(len(s.Label), maxLabel)]
			if s.PID == 0 || c.send(func(uint64) Frame { return s }) != nil {
				continue
			}
		}
	}
	_ = c.send(func(uint64) Frame { return SessionStatus{Seq: seq} })
}

// deliver hands an answer to its request, if somebody still waits.
func (c *Client) deliver(seq uint64, a answer) error {
	c.mu.Lock()
	done, ok := c.pending[seq]
	delete(c.pending, seq)
	c.mu.Unlock()
	switch {
	case ok:
		done(a)
	case a.w != nil:
		a.w.discard()
	}
	return nil
}

func (c *Client) spawned(f Spawned, fds []int) error {
	w := newWorker(c, f, fds)
	c.mu.Lock()
	if c.live[f.Handle] != nil {
		c.mu.Unlock()
		w.closeFiles()
		return errors.New("SPAWNED with a handle that is in use")
	}
	c.live[f.Handle] = w
	c.mu.Unlock()
	return c.deliver(f.Seq, answer{frame: f, w: w})
}

func (c *Client) exited(f Exited) {
	c.mu.Lock()
	w := c.live[f.Handle]
	delete(c.live, f.Handle)
	c.mu.Unlock()
	if w != nil {
		w.end(Status{Code: int(f.Code), Signal: int(f.Signal), Reason: f.Reason})
	}
}

// unexpected ends the conversation with a monitor that answers one request with
// the answer to another kind.
func (c *Client) unexpected(f Frame) error {
	c.fail(fmt.Errorf("%v answers another request", f.Type()))
	return errGone
}

// fail notes why and makes the reader end the conversation.
func (c *Client) fail(why error) {
	c.mu.Lock()
	if c.err == nil {
		c.err = why
	}
	c.mu.Unlock()
	c.conn.Close()
}

// end runs once, in the reader: nothing waits for the monitor any more.
func (c *Client) end() {
	c.mu.Lock()
	lost, waiting := c.live, c.pending
	c.live, c.pending = map[uint64]*worker{}, map[uint64]func(answer){}
	c.mu.Unlock()
	close(c.done)
	for _, done := range waiting {
		done(answer{err: errGone})
	}
	for _, w := range lost {
		w.end(Status{Code: -1, Reason: errGone.Reason})
	}
}
