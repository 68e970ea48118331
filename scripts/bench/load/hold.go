package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// holder is a client whose session is open and idle, with a connection of one kind.
type holder interface {
	// hold opens the session and leaves it with the connection.
	hold() error
	// alive says whether the connection still stands.
	alive() error
	close() error
}

func newHolder(o *options, kind, token string) (holder, error) {
	r := newRaw(o, token)
	switch kind {
	case "none", "h1", "h1-stream":
		return &rawHolder{r, kind}, nil
	case "h2", "h2-stream":
		return &h2Holder{raw: r, url: o.url, stream: kind == "h2-stream"}, nil
	}
	return nil, fmt.Errorf("no kind of connection is called %q", kind)
}

// hold opens n sessions one after the other and calls at after each.
func hold(o *options, n int, kind func(i int) string, at func(i int)) ([]holder, error) {
	tokens, err := lines(o.tokenFile)
	if err != nil {
		return nil, err
	}
	out := make([]holder, n)
	for i := range out {
		if out[i], err = newHolder(o, kind(i), pick(tokens, i)); err != nil {
			return nil, err
		}
		if err := out[i].hold(); err != nil {
			return nil, fmt.Errorf("idle session %d: %w", i, err)
		}
		at(i)
	}
	return out, nil
}

func always(kind string) func(int) string { return func(int) string { return kind } }

func allAlive(hs []holder) error {
	for i, h := range hs {
		if err := h.alive(); err != nil {
			return fmt.Errorf("idle session %d: %w", i, err)
		}
	}
	return nil
}

func closeAll(hs []holder) error {
	for i, h := range hs {
		if err := h.close(); err != nil {
			return fmt.Errorf("end idle session %d: %w", i, err)
		}
	}
	return nil
}

// rawHolder holds no connection or one of HTTP/1.1.
type rawHolder struct {
	*rawClient
	kind string
}

func (h *rawHolder) hold() error {
	if err := h.open(); err != nil {
		return err
	}
	switch h.kind {
	case "none":
		h.hangUp()
	case "h1-stream":
		return h.get()
	}
	return nil
}

func (h *rawHolder) alive() error {
	if h.c == nil {
		return nil
	}
	return stillOpen(h.c, h.br)
}

// stillOpen tells a quiet connection from one that the other side has closed.
func stillOpen(c net.Conn, r io.Reader) error {
	c.SetReadDeadline(time.Now().Add(time.Millisecond))
	var b [512]byte
	if _, err := r.Read(b[:]); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("the connection is gone: %w", err)
	}
	return nil
}

func (h *rawHolder) close() error {
	if h.kind != "h1" {
		h.hangUp()
	}
	return h.rawClient.close()
}

// h2Holder holds one connection of HTTP/2, idle or with a stream.
type h2Holder struct {
	raw    *rawClient // what to say; it does not connect
	url    string
	stream bool
	hc     *http.Client
	dials  atomic.Int64
	body   io.ReadCloser
}

func (h *h2Holder) hold() error {
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		h.dials.Add(1)
		d := tls.Dialer{Config: clientTLS("h2")}
		return d.DialContext(ctx, network, addr)
	}
	h.hc = &http.Client{Transport: &http.Transport{DialTLSContext: dial, ForceAttemptHTTP2: true}}
	if err := h.post(h.raw.initialize()); err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	if err := h.post(initialized); err != nil {
		return err
	}
	if !h.stream {
		return nil
	}
	resp, err := h.do(http.MethodGet, nil)
	if err != nil {
		return fmt.Errorf("open the stream: %w", err)
	}
	h.body = resp.Body
	return nil
}

func (h *h2Holder) post(body []byte) error {
	resp, err := h.do(http.MethodPost, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
		h.raw.session = id
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// do sends a request, whose response is a success of HTTP/2.
func (h *h2Holder) do(method string, body []byte) (*http.Response, error) {
	req, err := http.NewRequest(method, h.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	if method == http.MethodGet {
		req.Header.Set("Accept", "text/event-stream")
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if h.raw.token != "" {
		req.Header.Set("Authorization", "Bearer "+h.raw.token)
	}
	if h.raw.session != "" {
		req.Header.Set("Mcp-Session-Id", h.raw.session)
		req.Header.Set("Mcp-Protocol-Version", h.raw.version)
	}
	resp, err := h.hc.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 != 2 || resp.ProtoMajor != 2 {
		resp.Body.Close()
		return nil, fmt.Errorf("%s %s", resp.Proto, resp.Status)
	}
	return resp, nil
}

// alive asks once more; the first connection must serve that.
func (h *h2Holder) alive() error {
	if err := h.post([]byte(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)); err != nil {
		return err
	}
	if n := h.dials.Load(); n != 1 {
		return fmt.Errorf("%d connections were made instead of one", n)
	}
	return nil
}

func (h *h2Holder) close() error {
	defer h.hc.CloseIdleConnections()
	if h.body != nil {
		h.body.Close()
	}
	if h.raw.session == "" {
		return nil
	}
	resp, err := h.do(http.MethodDelete, nil)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}
