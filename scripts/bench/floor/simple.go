package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
)

// simple relays through encoding/json maps and a reader goroutine.
type simple struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	mu   sync.Mutex // guards writes to in
	next atomic.Int64
	wait sync.Map // id -> chan []byte
}

func newSimple(cmd *exec.Cmd, in io.WriteCloser, out io.Reader) *simple {
	s := &simple{cmd: cmd, in: in}
	go func() {
		r := bufio.NewReaderSize(out, 64<<10)
		for {
			l, err := r.ReadBytes('\n')
			if err != nil {
				return
			}
			var f struct {
				ID json.RawMessage `json:"id"`
			}
			if json.Unmarshal(l, &f) != nil || f.ID == nil {
				continue
			}
			if ch, ok := s.wait.LoadAndDelete(string(f.ID)); ok {
				ch.(chan []byte) <- l
			}
		}
	}()
	return s
}

// withID re-encodes b with another id.
func withID(b []byte, id string) []byte {
	var m map[string]json.RawMessage
	if json.Unmarshal(b, &m) != nil {
		return nil
	}
	m["id"] = json.RawMessage(id)
	o, _ := json.Marshal(m)
	return o
}

func (s *simple) call(ctx context.Context, w http.ResponseWriter, body []byte, a, e int) error {
	n := strconv.FormatInt(s.next.Add(1), 10)
	ch := make(chan []byte, 1)
	s.wait.Store(n, ch)
	s.mu.Lock()
	_, err := s.in.Write(append(withID(body, n), '\n'))
	s.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case l := <-ch:
		w.Header().Set("Content-Type", "application/json")
		_, err = w.Write(withID(l, string(body[a:e])))
		return err
	case <-ctx.Done():
		s.wait.Delete(n)
		return ctx.Err()
	}
}

func (s *simple) notify(body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.in.Write(append(bytes.ReplaceAll(body, []byte("\n"), nil), '\n'))
}

func (s *simple) close() {
	s.in.Close()
	go s.cmd.Wait()
}
