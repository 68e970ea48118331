package login

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// browse is a browser in which alice signs in and reads our last page.
func (w *world) browse(address string) error {
	go func() {
		resp := w.must(http.Get(w.person(address)))
		defer resp.Body.Close()
		if b, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(b), "Signed in") {
			w.Errorf("the last page: %q, %v", b, err)
		}
	}()
	return nil
}

// minLife is what the token command asks for when nobody says otherwise.
const minLife = time.Minute

func TestBrowserSignIn(t *testing.T) {
	w := newWorld(t, time.Hour)
	c := w.client()
	c.Open = w.browse
	var ids []string
	for range 2 { // the second time it is the client that was registered the first time
		if err := c.SignIn(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		token, err := c.Token(t.Context(), minLife)
		if err != nil {
			t.Fatal(err)
		}
		got := claimsOf(t, token)
		if got.Audience != serverURL || !strings.Contains(got.Scope, "mcp:use") {
			t.Errorf("claims %+v", got)
		}
		ids = append(ids, got.Client)
	}
	if !strings.HasPrefix(ids[0], "dcr-") || ids[0] != ids[1] || w.count("/register") != 1 {
		t.Errorf("clients %v after %d registrations, want one registered client", ids, w.count("/register"))
	}
	info, err := os.Stat(c.Store.path(serverURL))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of the sign-in: %v, %v", info.Mode(), err)
	}
}

func TestDeviceSignInWithPKCE(t *testing.T) {
	w := newWorld(t, time.Hour)
	w.issuerAt = demand(w.issuerAt, map[string]string{"/device_authorization": "code_challenge", "/oauth/token": "code_verifier"}, t)
	synctest.Test(t, func(t *testing.T) {
		w.T = t
		token, err := w.signedIn().Token(t.Context(), minLife)
		if err != nil || claimsOf(t, token).Audience != serverURL {
			t.Errorf("token %q, %v", token, err)
		}
	})
}

// TestBrowserAfterDevice holds that a client that was registered for the one way is
// not used for the other, where its redirect URI does not fit.
func TestBrowserAfterDevice(t *testing.T) {
	w := newWorld(t, time.Hour)
	synctest.Test(t, func(t *testing.T) { w.T = t; w.signedIn() })
	w.T = t
	c := w.client()
	c.Open = w.browse
	if err := c.SignIn(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if n := w.count("/register"); n != 2 {
		t.Errorf("%d registrations, want 2", n)
	}
}

// demand fails the test when a POST to a path comes without a field.
func demand(next http.Handler, fields map[string]string, t *testing.T) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if field := fields[r.URL.Path]; field != "" && r.PostFormValue(field) == "" {
			t.Errorf("%s without %s", r.URL.Path, field)
		}
		next.ServeHTTP(w, r)
	})
}

// TestHourOfShortTokens holds that for an hour of tokens that live a minute, two
// askers never get one that has expired, and never spend one refresh token twice.
func TestHourOfShortTokens(t *testing.T) {
	w := newWorld(t, time.Minute)
	synctest.Test(t, func(t *testing.T) {
		w.T = t
		first := w.signedIn()
		begun := time.Now()
		var askers sync.WaitGroup
		for i, every := range []time.Duration{700 * time.Millisecond, 11 * time.Second} {
			c := w.client()
			c.Store = first.Store
			askers.Go(func() {
				for time.Since(begun) < time.Hour {
					token, err := c.Token(t.Context(), minLife)
					if err != nil {
						t.Errorf("asker %d after %v: %v", i, time.Since(begun), err)
						return
					}
					if left := time.Until(time.Unix(claimsOf(t, token).Expiry, 0)); left < 25*time.Second {
						t.Errorf("asker %d after %v: a token with %v left", i, time.Since(begun), left)
						return
					}
					time.Sleep(every)
				}
			})
		}
		askers.Wait()
		if n := w.count("refresh_token"); n < 60 || n > 130 {
			t.Errorf("%d refreshes in an hour, want one about every 30 s", n)
		}
		if strings.Contains(w.log.String(), "a spent refresh token came back") {
			t.Error("a refresh token was spent twice")
		}
	})
}

func TestSignInIsOver(t *testing.T) {
	w := newWorld(t, time.Minute)
	synctest.Test(t, func(t *testing.T) {
		w.T = t
		c := w.signedIn()
		e, err := c.Store.read(serverURL)
		if err != nil {
			t.Fatal(err)
		}
		form := url.Values{"token": {e.RefreshToken}, "client_id": {e.ClientID}}
		w.must(c.HTTP.PostForm(issuerURL+"/revoke", form))
		time.Sleep(40 * time.Second)
		for range 3 {
			if token, err := c.Token(t.Context(), minLife); !errors.Is(err, ErrSignIn) {
				t.Errorf("token %q, %v; want ErrSignIn", token, err)
			}
		}
		if n := w.count("refresh_token"); n != 1 {
			t.Errorf("a refresh token that the issuer refused was offered %d times", n)
		}
	})
}

func TestNoSignIn(t *testing.T) {
	c := newWorld(t, time.Minute).client()
	if _, err := c.Token(t.Context(), minLife); !errors.Is(err, ErrSignIn) {
		t.Errorf("got %v, want ErrSignIn", err)
	}
	if err := c.SignOut(t.Context(), false); err == nil {
		t.Error("signed out without a sign-in")
	}
}

// TestIssuerIsAway holds that a fault of the issuer is no end of the sign-in.
func TestIssuerIsAway(t *testing.T) {
	w := newWorld(t, time.Minute)
	synctest.Test(t, func(t *testing.T) {
		w.T = t
		c := w.signedIn()
		w.answerInstead(func(rw http.ResponseWriter, _ *http.Request) { http.Error(rw, "down", http.StatusServiceUnavailable) })
		time.Sleep(40 * time.Second)
		if token, err := c.Token(t.Context(), minLife); err != nil || token == "" {
			t.Errorf("with 20 s left: %v", err)
		}
		time.Sleep(30 * time.Second)
		if token, err := c.Token(t.Context(), minLife); err == nil || errors.Is(err, ErrSignIn) {
			t.Errorf("after the token's end: %q, %v", token, err)
		}
		w.answerInstead(nil)
		if _, err := c.Token(t.Context(), minLife); err != nil {
			t.Errorf("with the issuer back: %v", err)
		}
	})
}

// TestRefreshNamesTheResource holds that a refresh asks for a token of this server
// too (RFC 8707 section 2.2): an issuer may give one for another otherwise.
func TestRefreshNamesTheResource(t *testing.T) {
	w := newWorld(t, time.Minute)
	synctest.Test(t, func(t *testing.T) {
		w.T = t
		c := w.signedIn()
		time.Sleep(50 * time.Second)
		w.issuerAt = demand(w.issuerAt, map[string]string{"/oauth/token": "resource"}, t)
		if _, err := c.Token(t.Context(), minLife); err != nil || w.count("refresh_token") != 1 {
			t.Errorf("%d refreshes, %v", w.count("refresh_token"), err)
		}
	})
}

// TestUselessAnswerKeepsTheSignIn holds that the refresh token of an answer is kept
// although its access token is of no use: the one before it is spent.
func TestUselessAnswerKeepsTheSignIn(t *testing.T) {
	w := newWorld(t, time.Minute)
	synctest.Test(t, func(t *testing.T) {
		w.T = t
		c := w.signedIn()
		time.Sleep(time.Minute)
		real := w.issuer.Handler()
		w.answerInstead(func(rw http.ResponseWriter, r *http.Request) {
			rec := httptest.NewRecorder()
			real.ServeHTTP(rec, r)
			var answer map[string]any
			if err := json.Unmarshal(rec.Body.Bytes(), &answer); err != nil {
				t.Error(err)
			}
			answer["token_type"] = "DPoP"
			rw.Header().Set("Content-Type", "application/json")
			json.NewEncoder(rw).Encode(answer)
		})
		if _, err := c.Token(t.Context(), minLife); err == nil || !strings.Contains(err.Error(), "type DPoP") {
			t.Errorf("a bound token: %v", err)
		}
		w.answerInstead(nil)
		if _, err := c.Token(t.Context(), minLife); err != nil {
			t.Errorf("with the issuer mended: %v", err)
		}
	})
}

// TestInterruptedRefresh holds that whoever is told to stop in the middle of a
// refresh keeps what it brought.
func TestInterruptedRefresh(t *testing.T) {
	w := newWorld(t, time.Minute)
	synctest.Test(t, func(t *testing.T) {
		w.T = t
		c := w.signedIn()
		time.Sleep(50 * time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		next := w.issuer.Handler()
		w.answerInstead(func(rw http.ResponseWriter, r *http.Request) { cancel(); next.ServeHTTP(rw, r) })
		if _, err := c.Token(ctx, minLife); err != nil {
			t.Errorf("interrupted: %v", err)
		}
		if _, err := c.Token(ctx, minLife); err != nil { // what is kept is fresh
			t.Errorf("after it: %v", err)
		}
		time.Sleep(time.Minute)
		if _, err := c.Token(ctx, minLife); err == nil {
			t.Error("a refresh was begun after the interruption")
		}
		if _, err := c.Token(t.Context(), minLife); err != nil {
			t.Errorf("the sign-in is lost: %v", err)
		}
	})
}

func TestSignOut(t *testing.T) {
	w := newWorld(t, time.Minute)
	synctest.Test(t, func(t *testing.T) {
		w.T = t
		c := w.signedIn()
		e, err := c.Store.read(serverURL)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.SignOut(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Token(t.Context(), minLife); !errors.Is(err, ErrSignIn) {
			t.Errorf("signed out, and Token says %v", err)
		}
		if err := c.Store.write(e); err != nil { // the old file does not help
			t.Fatal(err)
		}
		time.Sleep(50 * time.Second)
		if _, err := c.Token(t.Context(), minLife); !errors.Is(err, ErrSignIn) {
			t.Errorf("the revoked refresh token: %v", err)
		}
	})
}

func TestSignOutKeepsWhatItCannotRevoke(t *testing.T) {
	w := newWorld(t, time.Minute)
	synctest.Test(t, func(t *testing.T) {
		w.T = t
		c := w.signedIn()
		w.answerInstead(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusBadGateway) })
		if err := c.SignOut(t.Context(), false); err == nil || !strings.Contains(err.Error(), "still kept") {
			t.Errorf("got %v", err)
		}
		if _, err := c.Store.read(serverURL); err != nil {
			t.Error(err)
		}
		if err := c.SignOut(t.Context(), true); err != nil {
			t.Error(err)
		}
		if _, err := c.Store.read(serverURL); !errors.Is(err, errNone) {
			t.Errorf("after --forget: %v", err)
		}
	})
}

func TestCallbackOfAStranger(t *testing.T) {
	w := newWorld(t, time.Minute)
	for name, change := range map[string]struct {
		edit func(url.Values)
		want string // of the error; empty: the sign-in goes on waiting
	}{
		"another state":  {func(q url.Values) { q.Set("state", "x") }, ""},
		"another issuer": {func(q url.Values) { q.Set("iss", "https://evil.test") }, "another issuer"},
		"refused":        {func(q url.Values) { q.Del("code"); q.Set("error", "access_denied") }, "refused in the browser"},
		"nothing":        {func(q url.Values) { q.Del("code") }, "neither a code nor an error"},
	} {
		t.Run(name, func(t *testing.T) {
			w.T = t
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			c := w.client()
			c.Store = Store{t.TempDir()}
			c.Open = func(address string) error {
				u, err := url.Parse(w.person(address))
				if err != nil {
					return err
				}
				q := u.Query()
				change.edit(q)
				u.RawQuery = q.Encode()
				go http.Get(u.String())
				return nil
			}
			err := c.SignIn(ctx, false)
			if change.want == "" && !errors.Is(err, context.DeadlineExceeded) || change.want != "" && (err == nil || !strings.Contains(err.Error(), change.want)) {
				t.Errorf("got %v, want %q", err, change.want)
			}
		})
	}
}
