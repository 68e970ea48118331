package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"syscall"

	"gatehouse/session/spawn"
)

// spawnedClient has gatehouse's monitor start its worker, and speaks to it on the
// descriptors that it gets.
type spawnedClient struct {
	lineClient
	monitor *spawn.Client
	token   string
	w       spawn.Worker
}

func (s *spawnedClient) open() (err error) {
	if s.w, err = s.monitor.Spawn(context.Background(), spawn.Request{Token: s.token}); err != nil {
		return err
	}
	return s.begin(s.w.Stdin(), s.w.Stdout())
}

// close returns when the worker's whole tree is gone.
func (s *spawnedClient) close() error {
	s.w.Stop()
	<-s.w.Exited()
	s.w.Stdout().Close()
	s.w.Stderr().Close()
	if st := s.w.Status(); st.Code != 0 {
		return fmt.Errorf("worker ended with status %d: %s", st.Code, st.Reason)
	}
	return nil
}

// order is what -mode monitor sends to the process that takes the front end's place.
type order struct {
	Args   []string // the command line, with the measure first
	Tokens []string
}

// report is its answer.
type report struct {
	Figures figures
	Error   string
}

// atMonitor has the measurement done by the program that the monitor started in place
// of the front end: this one, under another name.
func atMonitor(args []string, o *options) (figures, error) {
	tokens, err := lines(o.tokenFile)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(o.url)
	if err != nil {
		return nil, err
	}
	c, err := net.Dial("tcp", u.Host)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := json.NewEncoder(c).Encode(order{args, tokens}); err != nil {
		return nil, err
	}
	var r report
	if err := json.NewDecoder(c).Decode(&r); err != nil {
		return nil, fmt.Errorf("read the report: %w", err)
	}
	if r.Error != "" {
		return nil, errors.New(r.Error)
	}
	return r.Figures, nil
}

// The monitor's descriptors for its front end: the plan, the monitor's socket, with
// tokens the keykeeper's, with TLS certificate and key, and the listeners.
const (
	planFD    = 3
	monitorFD = 4
)

// inPlaceOfFront measures what it is asked to until the monitor is gone.
func inPlaceOfFront() error {
	var p struct{ Auth, TLS bool }
	if err := json.NewDecoder(os.NewFile(planFD, "plan")).Decode(&p); err != nil {
		return fmt.Errorf("read the plan: %w", err)
	}
	fd := monitorFD + 1
	if p.Auth {
		fd++
	}
	if p.TLS {
		fd += 2
	}
	syscall.SetNonblock(monitorFD, true)
	monitor, err := spawn.NewClient(os.NewFile(monitorFD, "monitor"), nil)
	if err != nil {
		return err
	}
	ln, err := net.FileListener(os.NewFile(uintptr(fd), "listener"))
	if err != nil {
		return err
	}
	if err := monitor.Ready(); err != nil {
		return err
	}
	go func() {
		<-monitor.Done()
		os.Exit(0)
	}()
	for {
		c, err := ln.Accept()
		if err != nil {
			return err
		}
		if err := obey(c, monitor); err != nil {
			return err
		}
	}
}

// obey does what one connection asks for.
func obey(c net.Conn, monitor *spawn.Client) error {
	defer c.Close()
	var do order
	switch err := json.NewDecoder(c).Decode(&do); {
	case errors.Is(err, io.EOF): // somebody who only looks whether we are there
		return nil
	case err != nil || len(do.Args) == 0 || measures[do.Args[0]] == nil:
		return fmt.Errorf("read the order: %q, %w", do.Args, err)
	}
	var r report
	o, err := parse(do.Args[1:])
	if err == nil {
		o.monitor, o.tokens = monitor, do.Tokens
		r.Figures, err = measures[do.Args[0]](o)
	}
	if err != nil {
		r.Error = err.Error()
	}
	return json.NewEncoder(c).Encode(r)
}
