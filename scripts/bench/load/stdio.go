package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// stdioClient speaks to a worker of its own without anything between.
type stdioClient struct {
	cmd     string
	version string
	c       *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	buf     []byte
}

func (s *stdioClient) open() error {
	f := strings.Fields(s.cmd)
	if len(f) == 0 {
		return fmt.Errorf("no -cmd")
	}
	s.c = exec.Command(f[0], f[1:]...)
	s.c.Stderr = os.Stderr
	var err error
	if s.in, err = s.c.StdinPipe(); err != nil {
		return err
	}
	out, err := s.c.StdoutPipe()
	if err != nil {
		return err
	}
	s.out = bufio.NewReaderSize(out, 1<<20)
	if err := s.c.Start(); err != nil {
		return err
	}
	if err := s.request(1, append(initBody(s.version), '\n')); err != nil {
		return err
	}
	_, err = s.in.Write(append(bytes.Clone(initialized), '\n'))
	return err
}

func (s *stdioClient) call(id int64) error {
	s.buf = append(callBody(s.buf[:0], id), '\n')
	return s.request(id, s.buf)
}

func (s *stdioClient) request(id int64, line []byte) error {
	if _, err := s.in.Write(line); err != nil {
		return err
	}
	answer, err := s.out.ReadSlice('\n')
	if err != nil {
		return err
	}
	return checkAnswer(answer, id)
}

func (s *stdioClient) close() {
	s.in.Close()
	s.c.Wait()
}

// checkAnswer says whether b is a result with that id.
func checkAnswer(b []byte, id int64) error {
	var want [32]byte
	w := strconv.AppendInt(append(want[:0], `"id":`...), id, 10)
	if !bytes.Contains(b, w) || !bytes.Contains(b, []byte(`"result"`)) {
		return fmt.Errorf("no result with id %d: %.300s", id, b)
	}
	return nil
}
