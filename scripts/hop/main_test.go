package main

import (
	"bufio"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// hopTo serves a hop to a TLS server with that handler.
func hopTo(t *testing.T, upstream http.HandlerFunc) (url string) {
	t.Helper()
	server := httptest.NewUnstartedServer(upstream)
	server.StartTLS()
	t.Cleanup(server.Close)
	dir := t.TempDir()
	ca, token := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "token")
	for name, content := range map[string][]byte{
		ca:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		token: []byte("secret\n"),
	} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h, err := newHop(server.URL, ca, token)
	if err != nil {
		t.Fatal(err)
	}
	hop := httptest.NewServer(h)
	t.Cleanup(hop.Close)
	return hop.URL
}

// TestAnswerOvertakesBody: an answer that begins before the hop has read the end of
// the request's body arrives whole, and so does the body.
func TestAnswerOvertakesBody(t *testing.T) {
	url := hopTo(t, func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		if r.Header.Get("Authorization") != "Bearer secret" {
			t.Error("no token")
		}
		if err := c.EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		io.WriteString(w, "early\n")
		c.Flush()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("read the body: %v", err)
		}
		w.Write(body)
	})
	body, rest := io.Pipe()
	request, err := http.NewRequestWithContext(t.Context(), "POST", url, body)
	if err != nil {
		t.Fatal(err)
	}
	request.ContentLength = 8
	hung := time.AfterFunc(20*time.Second, func() { rest.CloseWithError(os.ErrDeadlineExceeded) })
	defer hung.Stop()
	go io.WriteString(rest, "half") // the transport reads it when it has a connection
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	in := bufio.NewReader(response.Body)
	if line, err := in.ReadString('\n'); line != "early\n" || err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	if _, err := io.WriteString(rest, "rest"); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(in); string(b) != "halfrest" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
}
