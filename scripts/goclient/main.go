// Command goclient is the official Go SDK as a client of ours: it connects,
// lists the tools and calls one.
//
//	goclient -url URL [-ca CA.pem] [-token-file FILE] [-tool NAME] [-args JSON] [-era legacy|auto]
//
// It prints what the tool answered; what the tool asks for is answered with "Ann" for a
// name and "said" for a line of a model. Exit status 0 when all went well, 3 when
// the server refused the token, 1 otherwise.
package main

//lint:file-ignore SA1019 sampling is deprecated as of 2026-07-28, and older servers use it

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// options are the command line.
type options struct {
	url, ca, tokenFile, tool, args, era string
}

// bearer adds the token to each request and remembers a refusal, whose status
// the SDK's error does not tell.
type bearer struct {
	token  string
	base   http.RoundTripper
	denied atomic.Int32
}

func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	res, err := b.base.RoundTrip(r)
	if err == nil && (res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden) {
		b.denied.Store(int32(res.StatusCode))
	}
	return res, err
}

func main() {
	var o options
	flag.StringVar(&o.url, "url", "", "the MCP endpoint")
	flag.StringVar(&o.ca, "ca", "", "PEM file of a private CA")
	flag.StringVar(&o.tokenFile, "token-file", "", "file that holds the bearer token")
	flag.StringVar(&o.tool, "tool", "", "tool to call; empty: the first one listed")
	flag.StringVar(&o.args, "args", "{}", "its arguments, a JSON object")
	flag.StringVar(&o.era, "era", "auto", "legacy: initialize only; auto: the SDK's default")
	flag.Parse()
	rt, err := transport(o)
	if err == nil {
		err = run(o, rt)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "goclient:", err)
		if rt != nil && rt.denied.Load() != 0 {
			os.Exit(3)
		}
		os.Exit(1)
	}
}

func transport(o options) (*bearer, error) {
	tr := http.DefaultTransport.(*http.Transport).Clone()
	if o.ca != "" {
		pem, err := os.ReadFile(o.ca)
		if err != nil {
			return nil, fmt.Errorf("read the CA: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate", o.ca)
		}
		tr.TLSClientConfig = &tls.Config{RootCAs: pool}
	}
	b := &bearer{base: tr}
	if o.tokenFile != "" {
		t, err := os.ReadFile(o.tokenFile)
		if err != nil {
			return nil, fmt.Errorf("read the token: %w", err)
		}
		b.token = strings.TrimSpace(string(t))
	}
	return b, nil
}

func run(o options, rt *bearer) error {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	client := mcp.NewClient(&mcp.Implementation{Name: "goclient", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ann"}}, nil
		},
		CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Role: "assistant", Model: "m", Content: &mcp.TextContent{Text: "said"}}, nil
		},
	})
	so := &mcp.ClientSessionOptions{}
	if o.era == "legacy" {
		so.ProtocolVersion = "2025-11-25"
	}
	t := &mcp.StreamableClientTransport{Endpoint: o.url, HTTPClient: &http.Client{Transport: rt}}
	s, err := client.Connect(ctx, t, so)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	fmt.Println("protocol", s.InitializeResult().ProtocolVersion)
	list, err := s.ListTools(ctx, nil)
	if err != nil {
		return fmt.Errorf("list tools: %w", err)
	}
	fmt.Println("tools", len(list.Tools))
	if o.tool == "" {
		if len(list.Tools) == 0 {
			return errors.New("the server lists no tool")
		}
		o.tool = list.Tools[0].Name
	}
	res, err := s.CallTool(ctx, &mcp.CallToolParams{Name: o.tool, Arguments: json.RawMessage(o.args)})
	if err != nil {
		return fmt.Errorf("call %s: %w", o.tool, err)
	}
	for _, c := range res.Content {
		if txt, ok := c.(*mcp.TextContent); ok {
			fmt.Println(txt.Text)
		}
	}
	if res.IsError {
		return fmt.Errorf("call %s: the tool reported an error", o.tool)
	}
	return s.Close()
}
