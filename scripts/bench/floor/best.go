package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
)

var (
	buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4096); return &b }}
	waiters = sync.Pool{New: func() any { return &waiter{ch: make(chan answer, 1), lead: make(chan struct{}, 1)} }}
	ctJSON  = []string{"application/json"}
)

// answer is a worker's line in a pooled buffer, its id cut out at cut.
type answer struct {
	buf *[]byte
	cut int
}

type waiter struct {
	ch   chan answer
	lead chan struct{}
}

// best relays with one pass over the envelope; of the handlers that wait, one
// leads: it reads the pipe for all, until its own answer came.
type best struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	mu   sync.Mutex // guards writes to in
	next atomic.Int64
	rd   *bufio.Reader
	pl   sync.Mutex // guards wait and busy
	wait map[int64]*waiter
	busy bool // somebody leads
}

func newBest(cmd *exec.Cmd, in io.WriteCloser, out io.Reader) *best {
	return &best{cmd: cmd, in: in, rd: bufio.NewReaderSize(out, 4096), wait: map[int64]*waiter{}}
}

func (s *best) call(ctx context.Context, w http.ResponseWriter, body []byte, a, e int) error {
	n := s.next.Add(1)
	wt := waiters.Get().(*waiter)
	s.pl.Lock()
	s.wait[n] = wt
	s.pl.Unlock()
	if bytes.IndexByte(body, '\n') >= 0 {
		body = bytes.ReplaceAll(body, []byte("\n"), []byte(" "))
	}
	bp := buffers.Get().(*[]byte)
	b := append((*bp)[:0], body[:a]...)
	b = strconv.AppendInt(b, n, 10)
	b = append(append(b, body[e:]...), '\n')
	s.mu.Lock()
	_, err := s.in.Write(b)
	s.mu.Unlock()
	*bp = b
	buffers.Put(bp)
	if err != nil {
		return err
	}
	got, err := s.await(wt, n)
	if err != nil {
		return err
	}
	waiters.Put(wt)
	l := *got.buf
	w.Header()["Content-Type"] = ctJSON
	w.Write(l[:got.cut])
	w.Write(body[a:e])
	_, err = w.Write(l[got.cut:])
	buffers.Put(got.buf)
	return err
}

// await returns the answer to n, leading when nobody else does.
func (s *best) await(wt *waiter, n int64) (answer, error) {
	s.pl.Lock()
	if s.busy {
		s.pl.Unlock()
		select {
		case got := <-wt.ch:
			select { // an offer to lead may have crossed
			case <-wt.lead:
				s.pass()
			default:
			}
			return got, nil
		case <-wt.lead:
		}
		select {
		case got := <-wt.ch:
			s.pass()
			return got, nil
		default:
		}
	} else {
		s.busy = true
		s.pl.Unlock()
	}
	for {
		l, err := s.line()
		if err != nil {
			return answer{}, err
		}
		if got, mine := s.deliver(l, n); mine {
			s.pass()
			return got, nil
		}
	}
}

// line reads one line; it is valid until the next.
func (s *best) line() ([]byte, error) {
	l, err := s.rd.ReadSlice('\n')
	if err != bufio.ErrBufferFull {
		return l, err
	}
	long := bytes.Clone(l)
	for err == bufio.ErrBufferFull {
		l, err = s.rd.ReadSlice('\n')
		long = append(long, l...)
	}
	return long, err
}

// pass hands the lead to somebody who waits.
func (s *best) pass() {
	s.pl.Lock()
	defer s.pl.Unlock()
	for _, w := range s.wait {
		select {
		case w.lead <- struct{}{}:
			return
		default:
		}
	}
	s.busy = false
}

// deliver gives a line to whoever waits for it; mine says that it is the leader's.
func (s *best) deliver(l []byte, leader int64) (got answer, mine bool) {
	a, e, ok := scanID(l)
	if !ok || a < 0 {
		return got, false
	}
	id, err := strconv.ParseInt(string(l[a:e]), 10, 64)
	if err != nil {
		return got, false
	}
	s.pl.Lock()
	w := s.wait[id]
	delete(s.wait, id)
	s.pl.Unlock()
	if w == nil {
		return got, false
	}
	bp := buffers.Get().(*[]byte)
	*bp = append(append((*bp)[:0], l[:a]...), l[e:len(l)-1]...)
	got = answer{bp, a}
	if id == leader {
		return got, true
	}
	w.ch <- got
	return got, false
}

func (s *best) notify(body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.in.Write(append(bytes.ReplaceAll(body, []byte("\n"), nil), '\n'))
}

func (s *best) close() {
	s.in.Close()
	go s.cmd.Wait()
}
