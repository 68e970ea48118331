// Command null is a net/http handler without worker, session and tokens: what HTTP
// alone costs. Other front ends are measured as multiples of it, or beside it.
//
//	null -addr ADDR [-cert FILE -key FILE] [-every 1s [-together]]
//
// A POST is answered with its own body. A GET opens a stream of events that stays
// open, with one message each interval if one is given.
package main

import (
	"bytes"
	"flag"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"time"
)

// maxBody is the longest body that it answers.
const maxBody = 32 << 20

func main() {
	addr := flag.String("addr", "127.0.0.1:0", "loopback address to listen on")
	cert := flag.String("cert", "", "certificate; with it TLS, HTTP/1.1 and HTTP/2 are served")
	key := flag.String("key", "", "its key")
	every := flag.Duration("every", 0, "how often a stream gets a message; 0: never")
	together := flag.Bool("together", false, "streams that were opened together have their messages together")
	flag.Parse()
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodPost:
			post(w, r)
		case http.MethodGet:
			stream(w, r, *every, *together)
		}
	})
	srv := &http.Server{Addr: *addr, Handler: h, ReadHeaderTimeout: 5 * time.Second}
	if *cert != "" {
		log.Fatal(srv.ListenAndServeTLS(*cert, *key))
	}
	log.Fatal(srv.ListenAndServe())
}

func post(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength < 0 || r.ContentLength > maxBody {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
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

// event is the message that scripts/bench/worker sends, as an event.
const event = "event: message\ndata: " +
	`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","logger":"bench","data":"one more second has passed"}}` + "\n\n"

func stream(w http.ResponseWriter, r *http.Request, every time.Duration, together bool) {
	w.Header()["Content-Type"] = []string{"text/event-stream"}
	ctrl := http.NewResponseController(w)
	if ctrl.Flush() != nil {
		return
	}
	// Independent workers do not have their messages in the same moment. Streams that do
	// are cheaper: one wake-up is for several.
	if every > 0 && !together {
		select {
		case <-r.Context().Done():
			return
		case <-time.After(rand.N(every)):
		}
	}
	var tick <-chan time.Time // nil for ever without messages
	if every > 0 {
		t := time.NewTicker(every)
		defer t.Stop()
		tick = t.C
	}
	for {
		select {
		case <-r.Context().Done():
			return
		case <-tick:
			if _, err := io.WriteString(w, event); err != nil || ctrl.Flush() != nil {
				return
			}
		}
	}
}
