// Command gosdk drives the official Go SDK for the client tests. person.py,
// beside this directory's parent, says how it is told what to do.
package main

//lint:file-ignore SA1019 sampling is deprecated as of 2026-07-28, and older clients use it

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/auth/extauth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

const redirect = "http://127.0.0.1:33418/callback"

// wire adds a static token and remembers the last refusal, which the SDK's
// error does not tell in full.
type wire struct {
	token  string
	base   http.RoundTripper
	status atomic.Int32
	why    atomic.Value
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	if w.token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+w.token)
	}
	res, err := w.base.RoundTrip(r)
	if err == nil && (res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden) {
		w.status.Store(int32(res.StatusCode))
		w.why.Store(res.Header.Get("WWW-Authenticate"))
	}
	return res, err
}

func main() {
	w := &wire{token: os.Getenv("TOKEN")}
	err := run(w)
	switch {
	case err == nil:
		fmt.Println("OK")
	case w.status.Load() != 0:
		fmt.Printf("ERROR %v\nchallenge %v\n", err, w.why.Load())
		os.Exit(3)
	default:
		fmt.Println("ERROR", err)
		os.Exit(1)
	}
}

func run(w *wire) error {
	pem, err := os.ReadFile(os.Getenv("CA"))
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return errors.New("CA: no certificate in " + os.Getenv("CA"))
	}
	tr := http.DefaultTransport.(*http.Transport).Clone()
	tr.TLSClientConfig = &tls.Config{RootCAs: pool}
	w.base = tr
	transport := &mcp.StreamableClientTransport{Endpoint: os.Getenv("URL"), HTTPClient: &http.Client{Transport: w}}
	if w.token == "" {
		// The issuer is asked without our counting: a refusal there is none of the server's.
		if transport.OAuthHandler, err = ownLogin(&http.Client{Transport: tr}); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var steps atomic.Int32
	heard := make(chan string, 64)
	client := mcp.NewClient(&mcp.Implementation{Name: "gosdk", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) { steps.Add(1) },
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ann"}}, nil
		},
		CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Role: "assistant", Model: "m", Content: &mcp.TextContent{Text: "said"}}, nil
		},
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { heard <- "tools" },
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) { heard <- "updated " + r.Params.URI },
	})
	opts := &mcp.ClientSessionOptions{}
	if os.Getenv("MODE") == "legacy" {
		opts.ProtocolVersion = "2025-11-25"
	}
	s, err := client.Connect(ctx, transport, opts)
	if err != nil {
		return err
	}
	fmt.Println("protocol", s.InitializeResult().ProtocolVersion)
	first, err := session(ctx, s, &steps)
	if err == nil {
		err = changes(ctx, s, heard)
	}
	if err == nil {
		err = held(ctx, s, first)
	}
	if err != nil {
		return err
	}
	return s.Close()
}

// changes hears of them in whichever way the protocol version has.
func changes(ctx context.Context, s *mcp.ClientSession, heard <-chan string) error {
	const uri = "test://resource"
	if err := s.Subscribe(ctx, &mcp.SubscribeParams{URI: uri}); err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	if _, err := call(ctx, s, &mcp.CallToolParams{Name: "change"}); err != nil {
		return err
	}
	all := map[string]bool{}
	for limit := time.After(20 * time.Second); len(all) < 2; {
		select {
		case what := <-heard:
			all[what] = true
		case <-limit:
			return fmt.Errorf("heard of %v alone", all)
		}
	}
	fmt.Println("heard", strings.Join(slices.Sorted(maps.Keys(all)), ", "))
	return nil
}

func call(ctx context.Context, s *mcp.ClientSession, p *mcp.CallToolParams) (string, error) {
	r, err := s.CallTool(ctx, p)
	if err != nil {
		return "", fmt.Errorf("call %s: %w", p.Name, err)
	}
	t, ok := r.Content[0].(*mcp.TextContent)
	if !ok || r.IsError {
		return "", fmt.Errorf("call %s: the tool failed", p.Name)
	}
	return t.Text, nil
}

// session does one of everything else, and returns who answered first.
func session(ctx context.Context, s *mcp.ClientSession, steps *atomic.Int32) (first string, err error) {
	list, err := s.ListTools(ctx, nil)
	if err != nil {
		return "", err
	}
	fmt.Println("tools", len(list.Tools))
	if got, err := call(ctx, s, &mcp.CallToolParams{Name: "echo", Arguments: json.RawMessage(`{"text":"hi"}`)}); err != nil || got != "hi" {
		return "", fmt.Errorf("echo: %q, %w", got, err)
	}
	if first, err = call(ctx, s, &mcp.CallToolParams{Name: "whoami"}); err != nil {
		return "", err
	}
	fmt.Println("whoami", first)
	p := &mcp.CallToolParams{Name: "progress"}
	p.SetProgressToken("steps")
	if _, err := call(ctx, s, p); err != nil {
		return "", err
	}
	fmt.Println("progress", steps.Load())
	if steps.Load() != 3 {
		return "", errors.New("want 3 reports of progress")
	}
	short, stop := context.WithTimeout(ctx, time.Second)
	defer stop()
	if _, err := call(short, s, &mcp.CallToolParams{Name: "slow", Arguments: json.RawMessage(`{"seconds":30}`)}); !errors.Is(err, context.DeadlineExceeded) {
		return "", fmt.Errorf("the call was not cancelled: %v", err)
	}
	for _, name := range []string{"cancellations", "ask"} {
		got, err := call(ctx, s, &mcp.CallToolParams{Name: name})
		if err != nil {
			return "", err
		}
		fmt.Println(got)
	}
	return first, nil
}

// held waits until the first token has expired, and calls once more.
func held(ctx context.Context, s *mcp.ClientSession, first string) error {
	if os.Getenv("HOLD") == "" {
		return nil
	}
	d, err := time.ParseDuration(os.Getenv("HOLD") + "s")
	if err != nil {
		return err
	}
	time.Sleep(d)
	again, err := call(ctx, s, &mcp.CallToolParams{Name: "whoami"})
	if err != nil {
		return err
	}
	fmt.Println("again", again)
	if again != first {
		return errors.New("another process answers: the session was lost")
	}
	return nil
}

func ownLogin(hc *http.Client) (auth.OAuthHandler, error) {
	id, secret := os.Getenv("CLIENT_ID"), os.Getenv("CLIENT_SECRET")
	if secret != "" {
		return extauth.NewClientCredentialsHandler(&extauth.ClientCredentialsHandlerConfig{HTTPClient: hc,
			Credentials: &oauthex.ClientCredentials{ClientID: id, ClientSecretAuth: &oauthex.ClientSecretAuth{ClientSecret: secret}}})
	}
	c := &auth.AuthorizationCodeHandlerConfig{RedirectURL: redirect, Client: hc, RequestRefreshToken: true, AuthorizationCodeFetcher: person}
	if id != "" {
		c.PreregisteredClient = &oauthex.ClientCredentials{ClientID: id}
	} else {
		c.DynamicClientRegistrationConfig = &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "gosdk", RedirectURIs: []string{redirect}, GrantTypes: []string{"authorization_code", "refresh_token"},
			ResponseTypes: []string{"code"}, TokenEndpointAuthMethod: "none"}}
	}
	return auth.NewAuthorizationCodeHandler(c)
}

// person signs in at the issuer, in place of the browser.
func person(ctx context.Context, a *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
	at, err := url.Parse(a.URL)
	if err != nil {
		return nil, err
	}
	if at.Query().Get("code_challenge_method") != "S256" {
		return nil, errors.New("the client asks without PKCE S256")
	}
	fmt.Println("asks for", at.Query().Get("scope"), "resource", at.Query().Get("resource"), "as", at.Query().Get("client_id"))
	cmd := exec.CommandContext(ctx, "python3", os.Getenv("LOGIN"), "follow", a.URL, os.Getenv("SIGN_IN"))
	cmd.Stdin = strings.NewReader(os.Getenv("PASSWORD") + "\n")
	cmd.Env = append(os.Environ(), "MCP_ISSUER_CA="+os.Getenv("CA"))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("sign in: %w", err)
	}
	back, err := url.Parse(strings.TrimSpace(string(out)))
	if err != nil {
		return nil, err
	}
	q := back.Query()
	return &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}, nil
}
