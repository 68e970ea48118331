// Command null is a net/http handler without worker and without tokens: what
// HTTP alone costs. Other front ends are measured as multiples of it.
package main

import (
	"bytes"
	"flag"
	"io"
	"log"
	"net/http"
	"time"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:0", "loopback address to listen on")
	flag.String("worker", "", "ignored")
	flag.Parse()
	srv := &http.Server{Addr: *addr, Handler: http.HandlerFunc(serve), ReadHeaderTimeout: 5 * time.Second}
	log.Fatal(srv.ListenAndServe())
}

func serve(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || r.ContentLength < 0 || r.ContentLength > 32<<20 {
		return
	}
	b := make([]byte, r.ContentLength)
	if _, err := io.ReadFull(r.Body, b); err != nil {
		return
	}
	w.Header()["Content-Type"] = []string{"application/json"}
	if !bytes.Contains(b, []byte("tools/call")) {
		io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18"}}`)
		return
	}
	out := append(make([]byte, 0, len(b)+32), `{"result":1,"req":`...)
	w.Write(append(append(out, b...), '}'))
}
