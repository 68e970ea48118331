package main

import (
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"gatehouse/auth/demoissuer"
	"gatehouse/auth/login"
	"gatehouse/certs"
)

// signInWorld is a server that wants tokens and the demo issuer, over TLS, and the
// folder of a person who uses the command.
type signInWorld struct {
	*testing.T
	bin, home, ca  string
	server, issuer string
	demo           *demoissuer.Issuer
	http           *http.Client
	log            bytes.Buffer // the issuer's; read after the server has stopped
	refreshes      atomic.Int32
}

func newSignInWorld(t *testing.T, life time.Duration) *signInWorld {
	t.Helper()
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the issuer's library logs refused requests
	w := &signInWorld{T: t, bin: filepath.Join(newWorld(t).bin, "gatehouse"), home: t.TempDir()}
	f, err := certs.Dev{Dir: t.TempDir()}.Leaf("server")
	if err != nil {
		t.Fatal(err)
	}
	w.ca = f.CA
	mcp, id := w.listen(), w.listen()
	w.server = fmt.Sprintf("https://localhost:%d/mcp", mcp.Addr().(*net.TCPAddr).Port)
	w.issuer = fmt.Sprintf("https://localhost:%d", id.Addr().(*net.TCPAddr).Port)
	if w.demo, err = demoissuer.New(demoissuer.Config{Issuer: w.issuer, Resources: []string{w.server},
		StateDir: t.TempDir(), AccessLife: life, Log: zerolog.New(zerolog.SyncWriter(&w.log))}); err != nil {
		t.Fatal(err)
	}
	next := w.demo.Handler()
	w.serve(id, f, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.PostFormValue("grant_type") == "refresh_token" {
			w.refreshes.Add(1)
		}
		next.ServeHTTP(rw, r)
	}))
	w.serve(mcp, f, w.resource())
	if w.http, err = login.NewHTTP(w.ca); err != nil {
		t.Fatal(err)
	}
	w.http.Jar, _ = cookiejar.New(nil)
	return w
}

func (w *signInWorld) listen() net.Listener {
	w.Helper()
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		w.Fatal(err)
	}
	return ln
}

func (w *signInWorld) serve(ln net.Listener, f certs.DevFiles, h http.Handler) {
	pair, err := certs.Load(f.Cert, f.Key)
	if err != nil {
		w.Fatal(err)
	}
	srv := &http.Server{Handler: h, TLSConfig: &tls.Config{GetCertificate: certs.NewStore(pair, time.Now).GetCertificate},
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	go srv.ServeTLS(ln, "", "")
	w.Cleanup(func() { srv.Close() })
}

// resource is as much of a protected resource as a sign-in needs.
func (w *signInWorld) resource() http.Handler {
	mux := http.NewServeMux()
	doc := strings.TrimSuffix(w.server, "/mcp") + "/.well-known/oauth-protected-resource/mcp"
	mux.HandleFunc("/mcp", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer resource_metadata=%q, scope="mcp:use"`, doc))
		rw.WriteHeader(http.StatusUnauthorized)
	})
	mux.HandleFunc("GET /.well-known/oauth-protected-resource/mcp", func(rw http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(rw).Encode(map[string]any{"resource": w.server, "authorization_servers": []string{w.issuer}})
	})
	return mux
}

// command is the program as the person runs it.
func (w *signInWorld) command(args ...string) *exec.Cmd {
	cmd := exec.Command(w.bin, args...)
	cmd.Env = []string{"HOME=" + w.home, "MCP_CA=" + w.ca, "PATH=" + os.Getenv("PATH")}
	return cmd
}

// output runs the program to its end.
func (w *signInWorld) output(args ...string) (stdout, stderr string, code int) {
	var out, errs bytes.Buffer
	cmd := w.command(args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Run()
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

var addressLine = regexp.MustCompile(`https://localhost:\d+/\S+`)

// signIn runs "gatehouse login" and is the person whom it asks.
func (w *signInWorld) signIn(args ...string) {
	w.Helper()
	cmd := w.command(append([]string{"login", w.server}, args...)...)
	said, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		w.Fatal(err)
	}
	var all strings.Builder
	buf := make([]byte, 4096)
	answered := false
	for {
		n, err := said.Read(buf)
		all.Write(buf[:n])
		if at := addressLine.FindString(all.String()); at != "" && !answered && strings.Contains(all.String(), "\n\n") {
			answered = true
			w.person(at)
		}
		if err != nil {
			break
		}
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(all.String(), "Signed in.") {
		w.Fatalf("login %v: %v\n%s", args, err, all.String())
	}
}

// person fills in the issuer's page as bob and brings the code back.
func (w *signInWorld) person(at string) {
	w.Helper()
	form := url.Values{"username": {"bob"}, "password": {w.demo.Password()}}
	if strings.Contains(at, "user_code=") {
		w.get(w.http.PostForm(at, form))
		return
	}
	_, loc := w.get(w.http.Get(at))
	body, _ := w.get(w.http.Get(w.issuer + loc))
	action := regexp.MustCompile(`action="([^"]+)"`).FindStringSubmatch(body)
	if action == nil {
		w.Fatalf("no form: %s", body)
	}
	_, loc = w.get(w.http.PostForm(w.issuer+action[1], form))
	_, loc = w.get(w.http.Get(loc))
	if body, _ = w.get(w.http.Get(loc)); !strings.Contains(body, "Signed in") {
		w.Errorf("the last page: %s", body)
	}
}

func (w *signInWorld) get(resp *http.Response, err error) (body, location string) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return string(b), resp.Header.Get("Location")
}

// left is how long a token still lives.
func left(t *testing.T, token string) time.Duration {
	t.Helper()
	var c struct {
		Expiry int64 `json:"exp"`
	}
	parts := strings.Split(strings.TrimSpace(token), ".")
	if len(parts) != 3 {
		t.Errorf("no token: %q", token)
		return 0
	}
	b, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	if err != nil {
		t.Error(err)
	}
	return time.Until(time.Unix(c.Expiry, 0))
}

func TestLoginTokenLogout(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"browser": {"--no-browser"}, "device": {"--device"}} {
		t.Run(name, func(t *testing.T) {
			w := newSignInWorld(t, time.Hour)
			if out, errs, code := w.output("token", w.server); code != exitSignIn || out != "" || !strings.Contains(errs, "gatehouse login "+w.server) {
				t.Errorf("token before the sign-in: %d %q %q", code, out, errs)
			}
			w.signIn(args...)
			out, errs, code := w.output("token", w.server)
			if code != 0 || errs != "" || left(t, out) < 50*time.Minute || strings.Count(out, "\n") != 1 {
				t.Errorf("token: %d %q %q", code, out, errs)
			}
			out, _, _ = w.output("token", "--headers", w.server)
			var headers map[string]string
			if err := json.Unmarshal([]byte(out), &headers); err != nil || !strings.HasPrefix(headers["Authorization"], "Bearer ey") {
				t.Errorf("token --headers: %q", out)
			}
			if _, errs, code := w.output("logout", w.server); code != 0 {
				t.Errorf("logout: %d %s", code, errs)
			}
			if _, _, code := w.output("token", w.server); code != exitSignIn {
				t.Errorf("token after the sign-out: %d", code)
			}
		})
	}
}

// TestTwoProcessesShareRefreshes runs "gatehouse token" in two real processes at a
// time, until tokens that live 3 s were refreshed 100 times: every other call
// insists on a new one, the others take what is there while it is fresh.
func TestTwoProcessesShareRefreshes(t *testing.T) {
	t.Parallel()
	const want = 100
	w := newSignInWorld(t, 3*time.Second)
	w.signIn("--device")
	var askers sync.WaitGroup
	var asked atomic.Int32
	for range 2 {
		askers.Go(func() {
			for w.refreshes.Load() < want && !t.Failed() {
				args := []string{"token", w.server}
				if asked.Add(1)%2 == 0 {
					args = append(args, "--renew")
				}
				out, errs, code := w.output(args...)
				if code != 0 {
					t.Errorf("exit %d: %s", code, errs)
					return
				}
				if d := left(t, out); d <= 0 {
					t.Errorf("a token that expired %v ago", -d)
				}
			}
		})
	}
	askers.Wait()
	if n := w.refreshes.Load(); n < want {
		t.Errorf("%d refreshes, want %d", n, want)
	}
	if strings.Contains(w.log.String(), "a spent refresh token came back") {
		t.Error("a refresh token was spent twice")
	}
}

// TestTokensAreShared lets two processes ask as they like for 10 s: what
// one has refreshed the other takes.
func TestTokensAreShared(t *testing.T) {
	t.Parallel()
	w := newSignInWorld(t, 3*time.Second)
	w.signIn("--device")
	var askers sync.WaitGroup
	until := time.Now().Add(10 * time.Second)
	for range 2 {
		askers.Go(func() {
			for time.Now().Before(until) {
				out, errs, code := w.output("token", w.server)
				if d := left(t, out); code != 0 || d <= 0 {
					t.Errorf("exit %d, a token with %v left: %s", code, d, errs)
					return
				}
			}
		})
	}
	askers.Wait()
	if n := w.refreshes.Load(); n < 4 || n > 10 {
		t.Errorf("%d refreshes in 10 s, want about one each 1.5 s", n)
	}
}
