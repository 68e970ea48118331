package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// rawClient speaks HTTP/1.1 on a socket of its own with prepared heads, so that
// the client costs little beside what is measured.
type rawClient struct {
	host, path string
	tls        bool
	token      string
	version    string
	session    string
	c          net.Conn
	br         *bufio.Reader
	buf, body  []byte
	head       []byte // up to "Content-Length: "
}

func newRaw(o options, token string) *rawClient {
	u, _ := url.Parse(o.url) // checked by options.check
	return &rawClient{host: u.Host, path: u.Path, tls: u.Scheme == "https", token: token, version: o.version}
}

func (r *rawClient) open() error {
	var err error
	if r.c == nil {
		if r.tls {
			r.c, err = tls.Dial("tcp", r.host, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}}) // loopback, no secret
		} else {
			r.c, err = net.Dial("tcp", r.host)
		}
		if err != nil {
			return err
		}
		r.br = bufio.NewReaderSize(r.c, 64<<10)
	}
	r.session = ""
	r.setHead("POST")
	if _, err := r.roundTrip(initBody(r.version)); err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	r.setHead("POST")
	_, err = r.roundTrip(initialized)
	return err
}

// setHead prepares the head of the requests to come.
func (r *rawClient) setHead(method string) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n", method, r.path, r.host)
	if r.token != "" {
		fmt.Fprintf(&b, "Authorization: Bearer %s\r\n", r.token)
	}
	if r.session != "" {
		fmt.Fprintf(&b, "Mcp-Session-Id: %s\r\nMCP-Protocol-Version: %s\r\n", r.session, r.version)
	}
	b.WriteString("Content-Length: ")
	r.head = []byte(b.String())
}

func (r *rawClient) call(id int64) error {
	r.body = callBody(r.body[:0], id)
	answer, err := r.roundTrip(r.body)
	if err != nil {
		return err
	}
	if !bytes.Contains(answer, []byte(text)) {
		return fmt.Errorf("the answer lacks the text: %.300s", answer)
	}
	return checkAnswer(answer, id)
}

// roundTrip sends one request and returns the answer's body, valid until the next.
func (r *rawClient) roundTrip(body []byte) ([]byte, error) {
	o := strconv.AppendInt(append(r.buf[:0], r.head...), int64(len(body)), 10)
	o = append(append(o, "\r\n\r\n"...), body...)
	r.buf = o
	if _, err := r.c.Write(o); err != nil {
		return nil, err
	}
	r.c.SetReadDeadline(time.Now().Add(20 * time.Second))
	n, chunked, err := r.readHead()
	if err != nil {
		return nil, err
	}
	if chunked {
		return r.readChunks()
	}
	if n < 0 {
		return nil, nil
	}
	out := make([]byte, 0, 512)
	if n <= r.br.Size() {
		d, err := r.br.Peek(n)
		if err != nil {
			return nil, err
		}
		out = append(out, d...)
		r.br.Discard(n)
		return out, nil
	}
	out = make([]byte, n)
	for have := 0; have < n; {
		k, err := r.br.Read(out[have:])
		if err != nil {
			return nil, err
		}
		have += k
	}
	return out, nil
}

// readHead reads the status line and the header fields that matter.
func (r *rawClient) readHead() (length int, chunked bool, err error) {
	length = -1
	for first := true; ; first = false {
		l, err := r.br.ReadSlice('\n')
		if err != nil {
			return 0, false, err
		}
		switch {
		case first:
			if len(l) < 12 || l[9] != '2' {
				return 0, false, fmt.Errorf("status %s", bytes.TrimSpace(l))
			}
		case len(l) <= 2:
			return length, chunked, nil
		case field(l, "content-length:"):
			length, _ = strconv.Atoi(string(bytes.TrimSpace(l[15:])))
		case field(l, "transfer-encoding:"):
			chunked = true
		case field(l, "mcp-session-id:"):
			r.session = string(bytes.TrimSpace(l[15:]))
		}
	}
}

func field(l []byte, name string) bool {
	return len(l) > len(name) && bytes.EqualFold(l[:len(name)], []byte(name))
}

func (r *rawClient) readChunks() ([]byte, error) {
	var body []byte
	for {
		l, err := r.br.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		k, err := strconv.ParseInt(string(bytes.TrimSpace(l)), 16, 32)
		if err != nil {
			return nil, err
		}
		for left := int(k) + 2; left > 0; {
			d, err := r.br.Peek(min(left, r.br.Size()))
			if err != nil {
				return nil, err
			}
			body = append(body, d...)
			r.br.Discard(len(d))
			left -= len(d)
		}
		body = body[:len(body)-2]
		if k == 0 {
			return body, nil
		}
	}
}

func (r *rawClient) close() {
	if r.c == nil {
		return
	}
	if r.session != "" {
		r.setHead("DELETE")
		r.roundTrip(nil)
		r.setHead("POST")
	}
}
