package router

import (
	"crypto/tls"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

// Limits of connections. A handshake and a request's header have headerTime
// each; a connection without a request is closed after idleTime.
const (
	headerTime     = 10 * time.Second
	idleTime       = 2 * time.Minute
	maxHeaderBytes = 32 << 10
)

// NewServer returns the HTTP server around a handler. With a certificate it
// speaks TLS 1.2 and 1.3, HTTP/1.1 and HTTP/2; without, HTTP/1.1 alone. A
// plaintext request on the TLS port is answered with a sentence by net/http.
//
// It has no limit on a whole request or response, because streams have no end;
// the door limits the reading of bodies and each blocked write.
func NewServer(h http.Handler, certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error), errorLog *log.Logger) *http.Server {
	s := &http.Server{
		Handler:                      h,
		ReadHeaderTimeout:            headerTime,
		IdleTimeout:                  idleTime,
		MaxHeaderBytes:               maxHeaderBytes,
		ErrorLog:                     errorLog,
		DisableGeneralOptionsHandler: true, // "OPTIONS *" goes through the door as well
		ConnState:                    liftLimits,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 128,
			MaxReadFrameSize:     64 << 10,
			SendPingTimeout:      time.Minute,
			PingTimeout:          15 * time.Second,
			WriteByteTimeout:     30 * time.Second,
		},
		Protocols: new(http.Protocols),
	}
	s.Protocols.SetHTTP1(true)
	if certificate != nil {
		s.Protocols.SetHTTP2(true)
		s.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: certificate}
	}
	return s
}

// Limit returns a listener that has at most n connections open at once: those
// beyond wait to be accepted. So idle connections of strangers leave descriptors
// for the workers.
func Limit(ln net.Listener, n int) net.Listener {
	return &limited{ln, make(chan struct{}, n), make(chan struct{}), sync.Once{}}
}

type limited struct {
	net.Listener
	open   chan struct{} // one token for each connection
	closed chan struct{}
	once   sync.Once
}

// Accept waits for a place and then for a connection.
func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.open <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.open
		return nil, err
	}
	return &limitedConn{Conn: c, open: l.open}, nil
}

// Close closes the listener and ends a waiting Accept.
func (l *limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type limitedConn struct {
	net.Conn
	open chan struct{}
	once sync.Once
}

// Close closes the connection and gives its place back.
func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { <-c.open })
	return err
}

// liftLimits takes the write limit of the last response off a connection that
// waits for its next request (see visit.arm).
func liftLimits(c net.Conn, state http.ConnState) {
	if state == http.StateIdle {
		c.SetWriteDeadline(time.Time{})
	}
}
