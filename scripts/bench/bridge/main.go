// Command bridge is what one builds with the official Go SDK alone: its server and
// its token check in front, and for each session a worker that its client drives. A
// yardstick for scripts/bench.sh and no product.
//
//	bridge -addr ADDR -worker FILE -issuer URL -aud AUDIENCE
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os/exec"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:0", "loopback address to listen on")
	worker := flag.String("worker", "", "worker program")
	issuer := flag.String("issuer", "", "issuer of the tokens")
	aud := flag.String("aud", "", "their audience")
	flag.Parse()
	verify, err := verifier(*issuer, *aud)
	if err != nil {
		log.Fatal(err)
	}
	server := func(*http.Request) *mcp.Server { return bridged(*worker) }
	h := mcp.NewStreamableHTTPHandler(server, &mcp.StreamableHTTPOptions{JSONResponse: true})
	mux := http.NewServeMux()
	mux.Handle("/mcp", auth.RequireBearerToken(verify, &auth.RequireBearerTokenOptions{Scopes: []string{"mcp:use"}})(h))
	log.Fatal((&http.Server{Addr: *addr, Handler: mux, ReadHeaderTimeout: 5 * time.Second}).ListenAndServe())
}

// verifier checks signature, issuer, audience and expiry of each token anew.
func verifier(issuer, aud string) (auth.TokenVerifier, error) {
	p, err := oidc.NewProvider(context.Background(), issuer)
	if err != nil {
		return nil, err
	}
	v := p.Verifier(&oidc.Config{ClientID: aud, SupportedSigningAlgs: []string{"RS256"}})
	return func(ctx context.Context, raw string, _ *http.Request) (*auth.TokenInfo, error) {
		t, err := v.Verify(ctx, raw)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", auth.ErrInvalidToken, err)
		}
		var claims struct{ Scope string }
		if err := t.Claims(&claims); err != nil {
			return nil, fmt.Errorf("%w: %w", auth.ErrInvalidToken, err)
		}
		return &auth.TokenInfo{Scopes: strings.Fields(claims.Scope), Expiration: t.Expiry, UserID: t.Subject}, nil
	}, nil
}

// bridged returns the server of one session. It starts the session's worker with
// initialize and hands the calls of tools to it.
func bridged(worker string) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "bridge", Version: "1"}, &mcp.ServerOptions{Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}})
	var behind *mcp.ClientSession // set by initialize, which comes before all else
	s.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			switch r := req.(type) {
			case *mcp.CallToolRequest:
				return behind.CallTool(ctx, &mcp.CallToolParams{Name: r.Params.Name, Arguments: r.Params.Arguments})
			case *mcp.ListToolsRequest:
				return behind.ListTools(ctx, r.Params)
			}
			if method == "initialize" {
				c := mcp.NewClient(&mcp.Implementation{Name: "bridge", Version: "1"}, nil)
				var err error
				if behind, err = c.Connect(context.WithoutCancel(ctx), &mcp.CommandTransport{Command: exec.Command(worker)}, nil); err != nil {
					return nil, err
				}
				if front, ok := req.GetSession().(*mcp.ServerSession); ok {
					go func() { front.Wait(); behind.Close() }()
				}
			}
			return next(ctx, method, req)
		}
	})
	return s
}
