package demoissuer

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// server is the library's server with what it leaves out: the resource
// parameter (RFC 8707), PKCE of the device grant, and a truthful discovery
// document.
type server struct {
	*op.LegacyServer
	issuer *Issuer
	store  *store
}

func errTarget(text string) *oidc.Error {
	return &oidc.Error{ErrorType: "invalid_target", Description: text}
}

// Discovery says what is served, and no more.
func (s *server) Discovery(ctx context.Context, r *op.Request[struct{}]) (*op.Response, error) {
	resp, err := s.LegacyServer.Discovery(ctx, r)
	if err != nil {
		return nil, err
	}
	d := resp.Data.(*oidc.DiscoveryConfiguration)
	d.RegistrationEndpoint = s.issuer.cfg.Issuer + "/register"
	d.ResponseTypesSupported = []string{"code"}
	d.ResponseModesSupported = []string{"query"}
	d.GrantTypesSupported = []oidc.GrantType{oidc.GrantTypeCode, oidc.GrantTypeRefreshToken, oidc.GrantTypeDeviceCode, oidc.GrantTypeClientCredentials}
	d.IntrospectionEndpointAuthMethodsSupported = nil
	d.IntrospectionEndpointAuthSigningAlgValuesSupported = nil
	return resp, nil
}

func (s *server) Authorize(_ context.Context, r *op.ClientRequest[oidc.AuthRequest]) (*op.Redirect, error) {
	if r.Data.RequestParam != "" {
		return nil, oidc.ErrRequestNotSupported()
	}
	resource, err := s.issuer.cfg.resource(r.Form["resource"])
	if err != nil {
		return nil, err
	}
	req, err := s.store.addRequest(r.Data, resource)
	if err != nil {
		return nil, err
	}
	return op.NewRedirect(r.Client.LoginURL(req.id)), nil
}

func (s *server) CodeExchange(ctx context.Context, r *op.ClientRequest[oidc.AccessTokenRequest]) (*op.Response, error) {
	if _, err := s.issuer.cfg.resource(r.Form["resource"]); err != nil {
		return nil, err
	}
	return noStore(s.LegacyServer.CodeExchange(ctx, r))
}

func (s *server) RefreshToken(ctx context.Context, r *op.ClientRequest[oidc.RefreshTokenRequest]) (*op.Response, error) {
	if _, err := s.issuer.cfg.resource(r.Form["resource"]); err != nil {
		return nil, err
	}
	return noStore(s.LegacyServer.RefreshToken(ctx, r))
}

func (s *server) DeviceAuthorization(ctx context.Context, r *op.ClientRequest[oidc.DeviceAuthorizationRequest]) (*op.Response, error) {
	resource, err := s.issuer.cfg.resource(r.Form["resource"])
	if err != nil {
		return nil, err
	}
	challenge := r.Form.Get("code_challenge")
	if challenge != "" && r.Form.Get("code_challenge_method") != string(oidc.CodeChallengeMethodS256) {
		return nil, oidc.ErrInvalidRequest().WithDescription("code_challenge_method must be S256")
	}
	resp, err := s.LegacyServer.DeviceAuthorization(ctx, r)
	if err != nil {
		return nil, err
	}
	s.store.bindDevice(resp.Data.(*oidc.DeviceAuthorizationResponse).DeviceCode, resource, challenge)
	return noStore(resp, nil)
}

func (s *server) DeviceToken(ctx context.Context, r *op.ClientRequest[oidc.DeviceAccessTokenRequest]) (*op.Response, error) {
	if err := s.store.checkDeviceVerifier(r.Data.DeviceCode, r.Form.Get("code_verifier")); err != nil {
		return nil, err
	}
	return noStore(s.LegacyServer.DeviceToken(ctx, r))
}

func (s *server) ClientCredentialsExchange(ctx context.Context, r *op.ClientRequest[oidc.ClientCredentialsRequest]) (*op.Response, error) {
	return noStore(s.LegacyServer.ClientCredentialsExchange(ctx, r))
}

// noStore keeps tokens out of caches (RFC 6749 section 5.1).
func noStore(resp *op.Response, err error) (*op.Response, error) {
	if err == nil {
		resp.Header.Set("Cache-Control", "no-store")
	}
	return resp, err
}

// Handler returns everything that is served over TLS.
func (i *Issuer) Handler() http.Handler {
	lib := op.RegisterLegacyServer(i.server, op.AuthorizeCallbackHandler(i.server.Provider()), op.WithServerCORSOptions(nil))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", i.home)
	mux.HandleFunc("GET /login", i.login)
	mux.HandleFunc("POST /login", i.login)
	mux.HandleFunc("GET /device", i.device)
	mux.HandleFunc("POST /device", i.device)
	mux.HandleFunc("POST /register", i.register)
	mux.HandleFunc("GET /.well-known/oauth-authorization-server", func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path = oidc.DiscoveryEndpoint // the same document (RFC 8414)
		lib.ServeHTTP(w, r)
	})
	mux.Handle("/", lib)
	return i.guard(mux)
}

// guard is what every request passes: the host that was asked for, CORS for
// browser clients on this machine, and a small body.
func (i *Issuer) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !i.ownHost(r.Host) {
			http.Error(w, "this is the demo issuer "+i.cfg.Issuer+"; ask for it by that name", http.StatusMisdirectedRequest)
			return
		}
		if origin := r.Header.Get("Origin"); origin != "" && isLoopbackOrigin(origin) {
			h := w.Header()
			h.Set("Access-Control-Allow-Origin", origin)
			h.Add("Vary", "Origin")
			if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
				h.Set("Access-Control-Allow-Methods", "GET, POST")
				h.Set("Access-Control-Allow-Headers", r.Header.Get("Access-Control-Request-Headers"))
				h.Set("Access-Control-Max-Age", "600")
				w.WriteHeader(http.StatusNoContent)
				return
			}
		}
		r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
		next.ServeHTTP(w, r)
	})
}

func (i *Issuer) ownHost(host string) bool {
	u, err := url.Parse("https://" + host)
	return err == nil && isLoopbackName(u.Hostname()) && u.Port() == i.port
}

func isLoopbackOrigin(origin string) bool {
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && isLoopbackName(u.Hostname())
}

// register is dynamic client registration (RFC 7591).
func (i *Issuer) register(w http.ResponseWriter, r *http.Request) {
	answer := func(status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(v)
	}
	refuse := func(kind, text string) {
		answer(http.StatusBadRequest, map[string]string{"error": kind, "error_description": text})
	}
	var reg registration
	if err := json.NewDecoder(r.Body).Decode(&reg); err != nil {
		refuse("invalid_client_metadata", "the body is no JSON object of client metadata")
		return
	}
	out, err := i.store.register(reg)
	if err != nil {
		refuse("invalid_redirect_uri", err.Error())
		return
	}
	i.cfg.Log.Info().Str("client", out.ID).Str("name", out.Name).Msg("client registered")
	answer(http.StatusCreated, out)
}
