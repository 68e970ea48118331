package router

import (
	"crypto/tls"
	"log"
	"net/http"
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
