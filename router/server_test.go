package router

import (
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// TestServerLimits: what holds slow and greedy clients off is set.
func TestServerLimits(t *testing.T) {
	s := NewServer(http.NotFoundHandler(), nil, nil)
	if s.ReadHeaderTimeout <= 0 || s.ReadHeaderTimeout > 10*time.Second || s.IdleTimeout <= 0 || s.MaxHeaderBytes != 32<<10 {
		t.Errorf("header %v, idle %v, header bytes %d", s.ReadHeaderTimeout, s.IdleTimeout, s.MaxHeaderBytes)
	}
	if s.ReadTimeout != 0 || s.WriteTimeout != 0 {
		t.Error("a limit on whole requests ends streams")
	}
	if s.Protocols.UnencryptedHTTP2() || s.Protocols.HTTP2() {
		t.Error("HTTP/2 without TLS")
	}
	if s.HTTP2.MaxConcurrentStreams == 0 || s.HTTP2.MaxConcurrentStreams > 250 {
		t.Errorf("%d streams", s.HTTP2.MaxConcurrentStreams)
	}
}

// TestSlowHeader: a request's header has its time and no more.
func TestSlowHeader(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(http.NotFoundHandler(), nil, quietLog)
	s.ReadHeaderTimeout = 100 * time.Millisecond
	go s.Serve(ln)
	defer s.Close()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: ")
	c.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.ReadAll(c); err != nil {
		t.Errorf("the connection is still open: %v", err)
	}
}

// TestLimit: no more connections than places, and each closed one is a place.
func TestLimit(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln := Limit(inner, 2)
	accepted := make(chan net.Conn, 8)
	ended := make(chan error, 1)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				ended <- err
				return
			}
			accepted <- c
		}
	}()
	for range 3 {
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	first := <-accepted
	second := <-accepted
	select {
	case <-accepted:
		t.Fatal("a third connection is open")
	case <-time.After(100 * time.Millisecond):
	}
	first.Close()
	first.Close() // gives one place back, not two
	third := <-accepted
	ln.Close()
	select {
	case err := <-ended:
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept ended with %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Error("Accept waits on")
	}
	second.Close()
	third.Close()
}
