package monitor

import (
	"bytes"
	"io"
	"os"
	"sync"
	"time"
)

// relayLine is the longest line of a part that stays whole.
const relayLine = 64 << 10

// relay carries what the parts print to the service's own output, so that no part
// holds a descriptor of the log: a front end that was taken over can add lines,
// and cannot take any away. The monitor reads them for line ends alone.
type relay struct {
	mu  sync.Mutex // guards to, and keeps lines of two parts apart
	to  io.Writer
	all sync.WaitGroup
}

// attach returns the descriptor that a part prints to; the caller closes it once
// the part has it. What is printed is carried until the last holder is gone.
func (r *relay) attach() (*os.File, error) {
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	r.all.Go(func() {
		defer out.Close()
		r.carry(out)
	})
	return in, nil
}

// finish waits until everything that ended parts printed has been carried.
func (r *relay) finish(limit time.Duration) {
	done := make(chan struct{})
	go func() {
		r.all.Wait()
		close(done)
	}()
	waitFor(done, limit)
}

// carry copies whole lines; a longer line than relayLine is cut.
func (r *relay) carry(from io.Reader) {
	buf := make([]byte, 0, relayLine)
	for {
		n, err := from.Read(buf[len(buf) : relayLine-1])
		buf = buf[:len(buf)+n]
		whole := bytes.LastIndexByte(buf, '\n') + 1
		switch {
		case whole > 0:
			r.write(buf[:whole])
			buf = append(buf[:0], buf[whole:]...)
		case len(buf) == relayLine-1: // with its end it is as long as a line may be
			r.write(append(buf, '\n'))
			buf = buf[:0]
		}
		if err != nil {
			if len(buf) > 0 {
				r.write(append(buf, '\n'))
			}
			return
		}
	}
}

// write passes lines on.
func (r *relay) write(b []byte) {
	b = withoutTraces(b)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to.Write(b) // an output that is gone has nobody to be told
}

// traceHead begins the lines that Go's runtime prints of a scheduler it traces, which
// is done for another reason (see awake).
var traceHead = []byte("SCHED ")

// withoutTraces leaves such lines out.
func withoutTraces(lines []byte) []byte {
	if !bytes.Contains(lines, traceHead) {
		return lines
	}
	kept := make([]byte, 0, len(lines))
	for line := range bytes.Lines(lines) {
		if !bytes.HasPrefix(line, traceHead) {
			kept = append(kept, line...)
		}
	}
	return kept
}
