package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// answerTime is how long a front end may take for an answer.
const answerTime = 30 * time.Second

// rawClient speaks HTTP/1.1 on a socket of its own with prepared heads, so that
// the client costs little beside what is measured.
type rawClient struct {
	script
	host, path string
	tls        bool
	token      string
	session    string
	c          net.Conn
	br         *bufio.Reader
	buf, body  []byte
	head       []byte // of a POST, up to "Content-Length: "
}

func newRaw(o *options, token string) *rawClient {
	u, _ := url.Parse(o.url) // checked by parse
	return &rawClient{script: newScript(o), host: u.Host, path: u.Path, tls: u.Scheme == "https", token: token}
}

// connect dials unless there is a connection.
func (r *rawClient) connect() (err error) {
	if r.c != nil {
		return nil
	}
	if r.tls {
		r.c, err = tls.Dial("tcp", r.host, clientTLS("http/1.1"))
	} else {
		r.c, err = net.Dial("tcp", r.host)
	}
	if err != nil {
		r.c = nil
		return err
	}
	r.br = bufio.NewReaderSize(r.c, 16<<10)
	return nil
}

// clientTLS trusts whom it finds: loopback, and nothing secret is sent.
func clientTLS(protocol string) *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}}
}

func (r *rawClient) hangUp() {
	if r.c != nil {
		r.c.Close()
		r.c, r.br = nil, nil
	}
}

func (r *rawClient) open() error {
	r.session = ""
	if err := r.connect(); err != nil {
		return err
	}
	r.prepare()
	if r.modern {
		return nil
	}
	if _, err := r.post(r.initialize()); err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	r.prepare()
	_, err := r.post(initialized)
	return err
}

// fields appends the header fields of every request.
func (r *rawClient) fields(b []byte) []byte {
	b = append(append(append(b, "Host: "...), r.host...), "\r\n"...)
	if r.token != "" {
		b = append(append(append(b, "Authorization: Bearer "...), r.token...), "\r\n"...)
	}
	if r.session != "" {
		b = fmt.Appendf(b, "Mcp-Session-Id: %s\r\nMCP-Protocol-Version: %s\r\n", r.session, r.version)
	}
	return b
}

// prepare makes the head of the POST requests to come.
func (r *rawClient) prepare() {
	b := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n", r.path)
	b = r.fields(b)
	if r.modern {
		b = append(b, "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n"...)
	}
	r.head = append(b, "Content-Length: "...)
}

func (r *rawClient) call(id int64) error {
	r.body = r.echo(r.body[:0], id)
	answer, err := r.post(r.body)
	if err != nil {
		return err
	}
	return r.checkAnswer(answer, id)
}

// post sends one request and returns the answer's body.
func (r *rawClient) post(body []byte) ([]byte, error) {
	if err := r.send(body); err != nil {
		return nil, err
	}
	return r.answer()
}

// send sends one request as a POST.
func (r *rawClient) send(body []byte) error {
	if r.c == nil {
		return errors.New("the connection is closed")
	}
	o := strconv.AppendInt(append(r.buf[:0], r.head...), int64(len(body)), 10)
	r.buf = append(append(o, "\r\n\r\n"...), body...)
	r.c.SetDeadline(time.Now().Add(answerTime))
	_, err := r.c.Write(r.buf)
	return err
}

// answer reads one response. After an error the connection is not used again.
func (r *rawClient) answer() ([]byte, error) {
	h, err := r.readHead()
	var b []byte
	if err == nil {
		b, err = r.readBody(h)
	}
	if err != nil {
		r.hangUp()
	}
	return b, err
}

// get opens the session's stream on a connection of its own; the response's head has
// been read when it returns.
func (r *rawClient) get() error {
	r.hangUp()
	if err := r.connect(); err != nil {
		return err
	}
	b := fmt.Appendf(nil, "GET %s HTTP/1.1\r\nAccept: text/event-stream\r\n", r.path)
	r.c.SetDeadline(time.Now().Add(answerTime))
	if _, err := r.c.Write(append(r.fields(b), "\r\n"...)); err != nil {
		return err
	}
	if _, err := r.readHead(); err != nil {
		return fmt.Errorf("open the stream: %w", err)
	}
	return r.c.SetDeadline(time.Time{})
}

// close ends the session and the connection.
func (r *rawClient) close() error {
	defer r.hangUp()
	return r.end()
}

// end ends the session and keeps the connection.
func (r *rawClient) end() error {
	if r.session == "" {
		return nil
	}
	if err := r.connect(); err != nil {
		return err
	}
	b := r.fields(fmt.Appendf(nil, "DELETE %s HTTP/1.1\r\n", r.path))
	r.session = ""
	r.c.SetDeadline(time.Now().Add(answerTime))
	_, err := r.c.Write(append(b, "\r\n"...))
	if err == nil {
		_, err = r.answer()
	}
	if err != nil {
		return fmt.Errorf("DELETE: %w", err)
	}
	return nil
}

// head is what matters of a response's head.
type head struct {
	length  int // -1: not said
	chunked bool
}

func (r *rawClient) readHead() (head, error) {
	h := head{length: -1}
	for first := true; ; first = false {
		l, err := r.br.ReadSlice('\n')
		if err != nil {
			return h, err
		}
		switch {
		case first:
			if len(l) < 12 || l[9] != '2' {
				return h, fmt.Errorf("answered by %q", bytes.TrimSpace(l))
			}
			if string(l[9:12]) == "204" || string(l[9:12]) == "202" {
				h.length = 0
			}
		case len(l) <= 2:
			return h, nil
		case field(l, "content-length:"):
			h.length, _ = strconv.Atoi(string(bytes.TrimSpace(l[15:])))
		case field(l, "transfer-encoding:"):
			h.chunked = true
		case field(l, "mcp-session-id:"):
			r.session = string(bytes.TrimSpace(l[15:]))
		}
	}
}

func field(l []byte, name string) bool {
	return len(l) > len(name) && bytes.EqualFold(l[:len(name)], []byte(name))
}

func (r *rawClient) readBody(h head) ([]byte, error) {
	switch {
	case h.chunked:
		return r.readChunks()
	case h.length < 0:
		return nil, errors.New("a response without a length")
	}
	b := make([]byte, h.length)
	_, err := io.ReadFull(r.br, b)
	return b, err
}

func (r *rawClient) readChunks() ([]byte, error) {
	var body []byte
	for {
		l, err := r.br.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		size, _, _ := strings.Cut(string(bytes.TrimSpace(l)), ";")
		n, err := strconv.ParseInt(size, 16, 32)
		if err != nil {
			return nil, err
		}
		at := len(body)
		body = append(body, make([]byte, n+2)...) // with its line end
		if _, err := io.ReadFull(r.br, body[at:]); err != nil {
			return nil, err
		}
		body = body[:at+int(n)]
		if n == 0 {
			return body, nil
		}
	}
}
