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

// lineClient speaks to a worker on its pipes.
type lineClient struct {
	script
	in  io.WriteCloser
	out *bufio.Reader
	buf []byte
}

// begin does the handshake on pipes to a new worker.
func (l *lineClient) begin(in io.WriteCloser, out io.Reader) error {
	l.in, l.out = in, bufio.NewReaderSize(out, 64<<10)
	if _, err := l.request(append(l.initialize(), '\n')); err != nil {
		return err
	}
	_, err := l.in.Write(append(bytes.Clone(initialized), '\n'))
	return err
}

func (l *lineClient) call(id int64) error {
	l.buf = append(l.echo(l.buf[:0], id), '\n')
	answer, err := l.request(l.buf)
	if err != nil {
		return err
	}
	return l.checkAnswer(answer, id)
}

func (l *lineClient) request(line []byte) ([]byte, error) {
	if _, err := l.in.Write(line); err != nil {
		return nil, err
	}
	return l.out.ReadSlice('\n')
}

// stdioClient starts a worker of its own, without anything between.
type stdioClient struct {
	lineClient
	cmd string
	c   *exec.Cmd
}

func (s *stdioClient) open() error {
	f := strings.Fields(s.cmd)
	if len(f) == 0 {
		return errors.New("no -cmd")
	}
	s.c = exec.Command(f[0], f[1:]...)
	s.c.Stderr = os.Stderr
	in, err := s.c.StdinPipe()
	if err != nil {
		return err
	}
	out, err := s.c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.c.Start(); err != nil {
		return err
	}
	return s.begin(in, out)
}

func (s *stdioClient) close() error {
	s.in.Close()
	return s.c.Wait()
}
