// Command floor is what a hand-written relay from HTTP to a stdio worker costs
// at the least: one worker a session, ids replaced, tokens verified once and
// then found in a cache. A yardstick for scripts/bench.sh and no product: it has
// no limits, no era, no monitor, and forgets to reap.
//
//	floor -addr ADDR -worker FILE [-issuer URL -aud AUDIENCE] [-tls] [-simple] [-setsid]
//
// -simple relays by encoding/json maps, as one would write it first. Without it
// one pass over the envelope splices the id, buffers are pooled, and the
// handler that waits reads the worker's pipe itself. -setsid gives each worker a
// session of its own, as gatehouse does: Linux then shares the processor out between
// front end and worker (sched_autogroup) and not between their threads.
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"flag"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
)

const maxBody = 4 << 20

// relay is one worker's way there and back.
type relay interface {
	// call sends body, whose id was found at body[a:e], and writes the answer.
	call(ctx context.Context, w http.ResponseWriter, body []byte, a, e int) error
	notify(body []byte)
	close()
}

// session is one worker and whose it is.
type session struct {
	relay
	subject string
}

// front is the server.
type front struct {
	worker   string
	simple   bool
	setsid   bool
	verifier *oidc.IDTokenVerifier
	mu       sync.RWMutex
	cache    map[[32]byte]entry
	sessions sync.Map // id -> *session
}

type entry struct {
	subject string
	expiry  int64
}

func main() {
	addr := flag.String("addr", "127.0.0.1:0", "loopback address to listen on")
	worker := flag.String("worker", "", "worker program")
	issuer := flag.String("issuer", "", "issuer of the tokens; empty: no tokens")
	aud := flag.String("aud", "", "their audience")
	useTLS := flag.Bool("tls", false, "serve TLS with a certificate made now")
	simple := flag.Bool("simple", false, "relay by maps")
	setsid := flag.Bool("setsid", false, "give each worker a session of its own")
	flag.Parse()
	f := &front{worker: *worker, simple: *simple, setsid: *setsid, cache: map[[32]byte]entry{}}
	if *issuer != "" {
		p, err := oidc.NewProvider(context.Background(), *issuer)
		if err != nil {
			log.Fatal(err)
		}
		f.verifier = p.Verifier(&oidc.Config{ClientID: *aud, SupportedSigningAlgs: []string{"RS256"}})
	}
	ln, err := net.Listen("tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	srv := &http.Server{Handler: f, ReadHeaderTimeout: 5 * time.Second}
	if !*useTLS {
		log.Fatal(srv.Serve(ln))
	}
	srv.TLSConfig = &tls.Config{Certificates: []tls.Certificate{selfSigned()}}
	srv.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){}
	log.Fatal(srv.ServeTLS(ln, "", ""))
}

func selfSigned() tls.Certificate {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		log.Fatal(err)
	}
	t := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.ParseIP("127.0.0.1")}}
	der, err := x509.CreateCertificate(rand.Reader, t, t, &k.PublicKey, k)
	if err != nil {
		log.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: k}
}

// subject returns who asks, "" without tokens; ok is false when nobody may.
func (f *front) subject(r *http.Request) (string, bool) {
	if f.verifier == nil {
		return "", true
	}
	tok, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return "", false
	}
	k := sha256.Sum256([]byte(tok))
	f.mu.RLock()
	e, ok := f.cache[k]
	f.mu.RUnlock()
	if ok && time.Now().Unix() < e.expiry {
		return e.subject, true
	}
	t, err := f.verifier.Verify(r.Context(), tok)
	if err != nil {
		return "", false
	}
	f.mu.Lock()
	f.cache[k] = entry{t.Subject, t.Expiry.Unix()}
	f.mu.Unlock()
	return t.Subject, true
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	sub, ok := f.subject(r)
	if !ok {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	sid := r.Header.Get("Mcp-Session-Id")
	if r.Method == http.MethodDelete {
		if x, ok := f.sessions.LoadAndDelete(sid); ok {
			x.(*session).close()
		}
		return
	}
	body, put, err := f.read(r)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	defer put()
	a, e, ok := scanID(body)
	if !ok {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s, status := f.session(w, sid, sub)
	switch {
	case s == nil:
		w.WriteHeader(status)
	case a < 0:
		s.notify(body)
		w.WriteHeader(http.StatusAccepted)
	case s.call(r.Context(), w, body, a, e) != nil:
		w.WriteHeader(http.StatusBadGateway)
	}
}

func (f *front) read(r *http.Request) ([]byte, func(), error) {
	if f.simple || r.ContentLength <= 0 || r.ContentLength > maxBody {
		b, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
		return b, func() {}, err
	}
	bp := buffers.Get().(*[]byte)
	b := *bp
	if int64(cap(b)) < r.ContentLength {
		b = make([]byte, r.ContentLength)
	}
	b = b[:r.ContentLength]
	*bp = b
	_, err := io.ReadFull(r.Body, b)
	return b, func() { buffers.Put(bp) }, err
}

// session finds or, without an id, starts one.
func (f *front) session(w http.ResponseWriter, sid, sub string) (*session, int) {
	if sid != "" {
		x, ok := f.sessions.Load(sid)
		if !ok || x.(*session).subject != sub {
			return nil, http.StatusNotFound
		}
		return x.(*session), 0
	}
	cmd := exec.Command(f.worker)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: f.setsid}
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err1 != nil || err2 != nil || cmd.Start() != nil {
		return nil, http.StatusInternalServerError
	}
	s := &session{subject: sub}
	if f.simple {
		s.relay = newSimple(cmd, in, out)
	} else {
		s.relay = newBest(cmd, in, out)
	}
	var rb [16]byte
	rand.Read(rb[:])
	sid = hex.EncodeToString(rb[:])
	f.sessions.Store(sid, s)
	w.Header().Set("Mcp-Session-Id", sid)
	return s, 0
}
