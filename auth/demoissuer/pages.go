package demoissuer

import (
	"context"
	_ "embed"
	"html/template"
	"net/http"
	"net/url"
	"strings"

	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

//go:embed page.html
var pageHTML string

var page = template.Must(template.New("page").Parse(pageHTML))

// pageData is all that a page may show.
type pageData struct {
	Title, Problem, Done string
	Form                 string // action of the form; empty: no form
	Code                 string // of the device
	AskCode              bool
	Client, Where        string
	Scopes               string
	Users                []User
	Issuer               string
}

func (i *Issuer) show(w http.ResponseWriter, status int, d pageData) {
	d.Users, d.Issuer = Users, i.cfg.Issuer
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	// No form-action: browsers apply it to the redirect to the client as well.
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'")
	w.WriteHeader(status)
	if err := page.Execute(w, d); err != nil {
		i.cfg.Log.Debug().Err(err).Msg("write page")
	}
}

func (i *Issuer) home(w http.ResponseWriter, _ *http.Request) {
	i.show(w, http.StatusOK, pageData{Title: "Gatehouse demo issuer", Done: "This issuer signs in two make-believe users of a demo. MCP clients find their way here by themselves."})
}

// login shows who asks for what, and asks who is there.
func (i *Issuer) login(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		i.show(w, http.StatusBadRequest, pageData{Title: "Sign in", Problem: "The form could not be read."})
		return
	}
	req, err := i.store.request(r.Form.Get("id"))
	if err != nil || req.Done() {
		i.show(w, http.StatusBadRequest, pageData{Title: "Sign in", Problem: errNoRequest.Error()})
		return
	}
	d := pageData{Title: "Sign in", Form: "/login?id=" + url.QueryEscape(req.id), Client: i.clientName(req.ClientID),
		Where: destination(req.RedirectURI), Scopes: strings.Join(req.scopes, " ")}
	if r.Method == http.MethodGet {
		i.show(w, http.StatusOK, d)
		return
	}
	if r.PostForm.Get("answer") == "deny" {
		i.store.DeleteAuthRequest(r.Context(), req.id)
		op.AuthRequestError(w, r, req, oidc.ErrAccessDenied().WithDescription("the person said no"), i.server.Provider())
		return
	}
	u, problem := i.whoIs(r.PostForm)
	if problem == "" {
		if err := i.store.approve(req.id, u); err != nil {
			problem = err.Error()
		}
	}
	if problem != "" {
		d.Problem = problem
		i.show(w, http.StatusForbidden, d)
		return
	}
	i.cfg.Log.Info().Str("user", u.Name).Str("client", req.ClientID).Msg("signed in")
	http.Redirect(w, r, i.server.AuthCallbackURL()(op.ContextWithIssuer(r.Context(), i.cfg.Issuer), req.id), http.StatusSeeOther)
}

// whoIs checks the user name and the password of a form.
func (i *Issuer) whoIs(form url.Values) (User, string) {
	u, err := userNamed(form.Get("username"))
	if err != nil || !i.store.isPassword(strings.TrimSpace(form.Get("password"))) {
		i.cfg.Log.Warn().Msg("sign-in with a wrong name or password")
		return User{}, "Wrong user or password. The start of the demo printed the password; it lies in the demo's state folder, too."
	}
	return u, ""
}

// device lets a person connect a program that cannot open a browser (RFC 8628 section 3.3).
func (i *Issuer) device(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		i.show(w, http.StatusBadRequest, pageData{Title: "Connect a device", Problem: "The form could not be read."})
		return
	}
	code := r.Form.Get("user_code")
	d := pageData{Title: "Connect a device", Form: "/device?user_code=" + url.QueryEscape(code), Code: code, AskCode: true}
	if id, ok := i.store.deviceClient(code); ok {
		d.Client = i.clientName(id)
	}
	if r.Method == http.MethodGet {
		i.show(w, http.StatusOK, d)
		return
	}
	u, problem := i.whoIs(r.PostForm)
	who := &u
	if r.PostForm.Get("answer") == "deny" {
		who, problem = nil, ""
	}
	if problem == "" {
		if err := i.store.decideDevice(code, who); err != nil {
			problem = err.Error()
		}
	}
	switch {
	case problem != "":
		d.Problem = problem
		i.show(w, http.StatusForbidden, d)
	case who == nil:
		i.show(w, http.StatusOK, pageData{Title: d.Title, Done: "The device was turned away."})
	default:
		i.cfg.Log.Info().Str("user", u.Name).Str("client", d.Client).Msg("device connected")
		i.show(w, http.StatusOK, pageData{Title: d.Title, Done: "Connected as " + u.Name + ". You can close this page."})
	}
}

func (i *Issuer) clientName(id string) string {
	c, err := i.store.GetClientByClientID(context.Background(), id)
	if err != nil {
		return id
	}
	if name := c.(*client).Name; name != "" {
		return name
	}
	return id
}

// destination names where the code goes, without its query.
func destination(redirect string) string {
	u, err := url.Parse(redirect)
	if err != nil {
		return redirect
	}
	if u.Host == "" {
		return u.Scheme + ":"
	}
	return u.Scheme + "://" + u.Host
}
