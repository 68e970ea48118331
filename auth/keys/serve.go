package keys

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"gatehouse/auth/identity"
)

// ErrClosed is what Serve returns when the keykeeper closed the socket.
var ErrClosed = errors.New("keykeeper closed the socket")

// ProtocolError is a message that no keykeeper of ours sends. It ends the
// connection; the reason contains no byte of the message.
type ProtocolError struct{ Reason string }

func (e *ProtocolError) Error() string { return "keykeeper's socket: " + e.Reason }

// firstSets is how long a new connection may bring nothing about an issuer
// before it is asked to: a keykeeper sends what it has when it starts, a
// receiver that starts later asks.
const firstSets = 250 * time.Millisecond

// Serve receives key sets from conn, one message a Read, and sends what Lookup
// asks for, until ctx ends (its error), the keykeeper closes the socket
// (ErrClosed), or it sends what it must not (a *ProtocolError). It closes conn
// and returns when nothing of it runs any more. What was received stays usable,
// and Serve may be called again with another connection, one at a time.
func (s *Store) Serve(ctx context.Context, conn io.ReadWriteCloser) error {
	if s.ask == nil {
		conn.Close()
		return errors.New("serve key sets: the zero Store takes none")
	}
	ctx, cancel := context.WithCancel(ctx)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		<-ctx.Done()
		conn.Close()
	}()
	heard := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() { s.write(ctx, conn, heard) })

	err := s.read(conn, heard)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	cancel()
	<-closed
	writer.Wait()
	return err
}

// read applies messages until the connection ends. It closes heard when every
// issuer was mentioned.
func (s *Store) read(conn io.Reader, heard chan<- struct{}) error {
	buf := make([]byte, MaxMessage+1)
	silent := make(map[identity.Issuer]bool, len(s.issuers))
	for _, iss := range s.issuers {
		silent[iss] = true
	}
	for {
		n, err := conn.Read(buf)
		switch {
		case errors.Is(err, io.EOF):
			return ErrClosed
		case err != nil:
			return fmt.Errorf("read key message: %w", err)
		}
		u, err := Parse(buf[:n])
		if err != nil {
			return &ProtocolError{Reason: err.Error()}
		}
		if !s.apply(u) {
			return &ProtocolError{Reason: "key message: an issuer that is not configured"}
		}
		if silent[u.Issuer] {
			if delete(silent, u.Issuer); len(silent) == 0 {
				close(heard)
			}
		}
	}
}

// write sends what is asked for, so that no caller of Lookup waits for a keykeeper
// that does not read.
func (s *Store) write(ctx context.Context, conn io.Writer, heard <-chan struct{}) {
	first := time.NewTimer(firstSets)
	defer first.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-heard:
			heard = nil
			first.Stop()
			continue
		case <-first.C:
		case <-s.ask:
		}
		if _, err := conn.Write([]byte{Ask}); err != nil {
			return // the reader finds out as well
		}
	}
}
