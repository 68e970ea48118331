package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
)

// stdioClient speaks to a worker of its own without anything between.
type stdioClient struct {
	script
	cmd string
	c   *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	buf []byte
}

func (s *stdioClient) open() error {
	f := strings.Fields(s.cmd)
	if len(f) == 0 {
		return errors.New("no -cmd")
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
	s.out = bufio.NewReaderSize(out, 64<<10)
	if err := s.c.Start(); err != nil {
		return err
	}
	if _, err := s.request(append(s.initialize(), '\n')); err != nil {
		return err
	}
	_, err = s.in.Write(append(bytes.Clone(initialized), '\n'))
	return err
}

func (s *stdioClient) call(id int64) error {
	s.buf = append(s.echo(s.buf[:0], id), '\n')
	answer, err := s.request(s.buf)
	if err != nil {
		return err
	}
	return s.checkAnswer(answer, id)
}

func (s *stdioClient) request(line []byte) ([]byte, error) {
	if _, err := s.in.Write(line); err != nil {
		return nil, err
	}
	return s.out.ReadSlice('\n')
}

func (s *stdioClient) close() error {
	s.in.Close()
	return s.c.Wait()
}
