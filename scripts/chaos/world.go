package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"gatehouse/auth/authtest"
	"gatehouse/certs"
)

// world is the server under test and what belongs to it.
type world struct {
	bin, dir string
	url      string
	text     string // of its configuration
	socket   string
	tls      *tls.Config
	issuer   *authtest.Issuer
	spare    *authtest.Key // of the issuer; the other one signs
	cmd      *exec.Cmd
	log      *os.File
	ended    chan error
}

// configuration has short times, so that everything happens in a few minutes.
const configuration = `mode: authenticated
state_dir: %[1]s/state
listen: {port: %[2]d}
tls: {cert: %[3]s, key: %[4]s}
issuers:
  - {issuer: "https://issuer.test", jwks_file: %[1]s/jwks.json, leeway: 0s, refresh: 1m}
servers:
  - resource: https://localhost:%[2]d/mcp
    worker: {command: [%[5]q, worker]}
operators: {socket: %[1]s/op.sock}
%[6]s
`

// stormy is the rest of it for the storm.
const stormy = `run_as: shared-account
limits: {max_sessions: 160, max_sessions_per_principal: 40, spawn_rate: 50, spawn_burst: 100, max_calls: 16}
lifetime:
  idle_timeout: 40s
  probe_interval: 4s
  probe_timeout: 2s
  stream_loss_grace: 4s
  streamless_timeout: 12s
  reaper_interval: 1s
  request_timeout: 15s
  credential_grace: 8s
  drain_limit: 3s
`

func newWorld(bin, dir, settings string) (*world, error) {
	w := &world{bin: bin, dir: dir, socket: filepath.Join(dir, "op.sock"), ended: make(chan error, 1)}
	if err := os.MkdirAll(filepath.Join(dir, "tls"), 0o755); err != nil {
		return nil, err
	}
	w.issuer, w.spare = authtest.NewIssuer("https://issuer.test"), authtest.NewKey("ES256")
	w.issuer.Keys = append([]*authtest.Key{w.spare}, w.issuer.Keys...)
	if err := w.publish(); err != nil {
		return nil, err
	}
	leaf, err := certs.Dev{Dir: filepath.Join(dir, "tls")}.Leaf("chaos")
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(leaf.CA)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	w.tls = &tls.Config{RootCAs: pool}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	port := ln.Addr().(*net.TCPAddr).Port
	ln.Close()
	w.url = fmt.Sprintf("https://localhost:%d/mcp", port)
	w.issuer.Audience = w.url
	w.text = fmt.Sprintf(configuration, dir, port, leaf.Cert, leaf.Key, filepath.Join(bin, "chaos"), settings)
	return w, w.configure(w.text)
}

// configure writes the configuration.
func (w *world) configure(text string) error {
	return os.WriteFile(filepath.Join(w.dir, "gatehouse.yaml"), []byte(text), 0o600)
}

// publish writes the issuer's keys.
func (w *world) publish() error {
	return os.WriteFile(filepath.Join(w.dir, "jwks.json"), w.issuer.JWKS(), 0o644)
}

// logged reports whether the server's log has that text, or has it in a moment.
func (w *world) logged(text string) bool {
	for range 20 {
		if b, _ := os.ReadFile(w.log.Name()); bytes.Contains(b, []byte(text)) {
			return true
		}
		time.Sleep(100 * time.Millisecond)
	}
	return false
}

// mint returns a token of a user that lives for that long.
func (w *world) mint(user string, life time.Duration, changes ...authtest.Change) string {
	now := time.Now()
	return w.issuer.Mint(append([]authtest.Change{
		authtest.Claim("sub", user), authtest.Claim("iat", now.Add(min(life, 0)-time.Minute).Unix()),
		authtest.Claim("nbf", now.Add(min(life, 0)-time.Minute).Unix()), authtest.Claim("exp", now.Add(life).Unix()),
	}, changes...)...)
}

func (w *world) start() error {
	var err error
	if w.log, err = os.Create(filepath.Join(w.dir, "log")); err != nil {
		return err
	}
	w.cmd = exec.Command(filepath.Join(w.bin, "gatehouse"), "serve", "--config", filepath.Join(w.dir, "gatehouse.yaml"))
	w.cmd.Env = []string{"HOME=" + w.dir, "PATH=/usr/bin:/bin"}
	w.cmd.Stdout, w.cmd.Stderr = w.log, w.log
	if err := w.cmd.Start(); err != nil {
		return err
	}
	go func() { w.ended <- w.cmd.Wait() }()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: w.tls}, Timeout: 2 * time.Second}
	for range 100 {
		if resp, err := client.Get(strings.TrimSuffix(w.url, "/mcp") + "/readyz"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == 200 {
				return nil
			}
		}
		time.Sleep(200 * time.Millisecond)
	}
	return errors.New("the server is not ready after 20 s; see its log")
}

// disturb reads the configuration again and hurts workers from outside.
func (w *world) disturb(seed uint64, stop *atomic.Bool, t *tally) {
	r := rand.New(rand.NewPCG(seed, 1<<40))
	for !stop.Load() {
		time.Sleep(time.Duration(500+r.IntN(1500)) * time.Millisecond)
		switch n := r.IntN(4); n {
		case 0:
			if err := w.configure(strings.Replace(w.text, "max_calls: 16", fmt.Sprintf("max_calls: %d", 12+r.IntN(5)), 1)); err != nil {
				t.fault("%v", err)
			}
			w.cmd.Process.Signal(syscall.SIGHUP)
			t.add("reload")
		default:
			list, err := w.sessions()
			if err != nil {
				t.fault("gatehouse sessions: %v", err)
				continue
			}
			if len(list) == 0 {
				continue
			}
			pid := list[r.IntN(len(list))].PID
			if w.isWorker(pid) {
				syscall.Kill(pid, []syscall.Signal{0, syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGTERM}[n])
				t.add([]string{"", "killed", "stopped", "terminated"}[n])
			}
		}
	}
}

type listed struct {
	PID              int
	Session, Subject string
}

// sessions is what "gatehouse sessions" says.
func (w *world) sessions() (list []listed, err error) {
	out, err := exec.Command(filepath.Join(w.bin, "gatehouse"), "sessions", "--socket", w.socket, "list", "--json").Output()
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(out) {
		var l listed
		if err := json.Unmarshal(line, &l); err != nil {
			return nil, err
		}
		list = append(list, l)
	}
	return list, nil
}

// settle waits until no session is left and measures the idle server.
func (w *world) settle() (idle, error) {
	deadline := time.Now().Add(75 * time.Second) // the longest time there is, and a little
	for {
		list, err := w.sessions()
		if err != nil {
			return idle{}, err
		}
		if len(list) == 0 {
			break
		}
		if time.Now().After(deadline) {
			return idle{}, fmt.Errorf("%d sessions are left", len(list))
		}
		time.Sleep(500 * time.Millisecond)
	}
	time.Sleep(20 * time.Second) // connections and the collector come to rest
	return w.measure()
}

// quit asks the server to end.
func (w *world) quit() error {
	w.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-w.ended:
		w.ended <- err
		if err != nil {
			return fmt.Errorf("the server ended with %w", err)
		}
		return nil
	case <-time.After(20 * time.Second):
		return errors.New("the server does not end")
	}
}

// stop is quit, and looks whether all of it did.
func (w *world) stop() error {
	if err := w.quit(); err != nil {
		return err
	}
	if left := w.processes(); len(left) > 0 {
		return fmt.Errorf("processes are left: %v", left)
	}
	if _, err := os.Stat(w.socket); err == nil {
		return errors.New("the operators' socket is left")
	}
	return nil
}

// kill ends the server whatever happens.
func (w *world) kill() {
	if w.cmd == nil || w.cmd.Process == nil {
		return
	}
	w.cmd.Process.Kill()
	select {
	case <-w.ended:
	case <-time.After(5 * time.Second):
	}
}
