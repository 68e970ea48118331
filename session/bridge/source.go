package bridge

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"syscall"

	"gatehouse/session/jsonrpc"
)

// errLine says that a line is longer than the limit.
var errLine = errors.New("line too long")

// maxTurn is how many bytes are read from a pipe that is never empty before others
// have a turn. Without one a worker that floods has a processor for 10 ms at a time,
// and a dozen of them hold everybody up for a tenth of a second.
const maxTurn = 64 << 10

// maxRun is how many lines one after the other, from a pipe that is never empty, are
// no flood.
const maxRun = 64

// source reads a pipe into pooled buffers. It holds one only while there are
// bytes in it: an idle pipe costs no buffer.
type source struct {
	src io.Reader
	raw syscall.RawConn // nil: src is no file that does not block
	try func(fd uintptr) bool

	buf   *Buffer // what was read and not consumed; nil when nothing
	limit int     // the longest line
	turn  int     // bytes since the pipe was empty, or since somebody else had a turn
	run   int     // lines since the pipe was empty, or since floods was true

	// While a line is handled.
	line  []byte
	after []byte // what follows it

	// The read under way.
	n   int
	err error
}

func newSource(src io.Reader, limit int) *source {
	s := &source{src: src, limit: limit, raw: nonBlocking(src)}
	if s.raw != nil {
		s.try = s.tryRead
	}
	return s
}

// room makes sure that there is a buffer with free space.
func (s *source) room() {
	if s.buf == nil {
		s.buf = newBuffer(0)
	} else if len(s.buf.B) == cap(s.buf.B) {
		s.buf.grow(s.limit + jsonrpc.MaxID)
	}
}

// drop gives the buffer back when nothing is in it.
func (s *source) drop() {
	if s.buf != nil && len(s.buf.B) == 0 {
		s.buf.Free()
		s.buf = nil
	}
}

func (s *source) tryRead(fd uintptr) bool {
	s.room()
	b := s.buf.B
	n, err := readPipe(fd, b[len(b):cap(b)])
	if err == syscall.EAGAIN {
		s.rest()
		s.drop()
		return false // wait until there is something
	}
	s.n, s.err = n, err
	return true
}

// fill waits for bytes and appends them to the buffer.
func (s *source) fill() error {
	if s.raw != nil {
		s.n, s.err = 0, nil
		if err := s.raw.Read(s.try); err != nil {
			s.drop()
			return err
		}
	} else {
		s.room()
		b := s.buf.B
		s.n, s.err = s.src.Read(b[len(b):cap(b)])
	}
	if s.n > 0 {
		if s.turn += s.n; s.turn > maxTurn {
			s.turn = 0
			runtime.Gosched()
		}
		s.buf.B = s.buf.B[:len(s.buf.B)+s.n]
		return nil // an error comes again
	}
	s.drop()
	return s.err
}

// lines waits for bytes and calls f with each line that is complete, without its
// newline; the line is valid during the call. It stops at the first error of f.
// A line over the limit is errLine; io.EOF may leave half a line unread.
func (s *source) lines(f func(line []byte) error) error {
	seen := 0
	if s.buf != nil {
		seen = len(s.buf.B)
	}
	if err := s.fill(); err != nil {
		return err
	}
	err := s.split(seen, f)
	s.line, s.after = nil, nil
	return err
}

// split is lines for what the buffer holds, in whose first seen bytes no line ends.
func (s *source) split(seen int, f func(line []byte) error) error {
	s.after = s.buf.B
	for {
		i := bytes.IndexByte(s.after[seen:], '\n')
		if i < 0 {
			break
		}
		s.run++
		s.line, s.after = s.after[:seen+i], s.after[seen+i+1:]
		seen = 0
		if len(s.line) > s.limit {
			return errLine
		}
		if err := f(s.line); err != nil {
			return err
		}
	}
	if len(s.after) > s.limit {
		return errLine
	}
	s.keep(s.after)
	return nil
}

// take gives the buffer away with the line that is handled, when that is so long that
// its buffer is mapped; B is raw then, with room for a longer id. It returns nil when the
// line is short, or when raw is not the whole of it but for white space.
func (s *source) take(raw []byte) *Buffer {
	if len(raw) <= maxPooled || s.buf == nil || s.buf.mapped == nil || len(bytes.TrimSpace(s.line)) != len(raw) {
		return nil
	}
	from := cap(s.buf.B) - cap(raw)
	if cap(s.buf.B)-from-len(raw) < jsonrpc.MaxID {
		return nil
	}
	b := s.buf
	s.buf = newBuffer(len(s.after))
	s.buf.B = append(s.buf.B, s.after...)
	s.line, s.after = nil, s.buf.B
	b.B = b.B[from : from+len(raw)]
	return b
}

// floods reports whether maxRun lines came since the pipe was empty or this was true
// last.
func (s *source) floods() bool {
	if s.raw == nil || s.run < maxRun {
		return false
	}
	s.run = 0
	return true
}

// rest says that the worker was not in the middle of a flood.
func (s *source) rest() { s.turn, s.run = 0, 0 }

// keep leaves the rest of the buffer for the next round.
func (s *source) keep(rest []byte) {
	switch {
	case len(rest) == len(s.buf.B):
	case len(rest) < classes[0] && cap(s.buf.B) > 2*classes[0], s.buf.mapped != nil && len(rest) <= maxPooled:
		small := newBuffer(len(rest))
		small.B = append(small.B, rest...)
		s.buf.Free()
		s.buf = small
	default:
		s.buf.B = s.buf.B[:copy(s.buf.B[:len(rest)], rest)]
	}
	s.drop()
}

// close gives the buffer back.
func (s *source) close() {
	if s.buf != nil {
		s.buf.Free()
		s.buf = nil
	}
}
