package login

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"
)

// oauth gives x/oauth2 our HTTP client.
func (c *Client) oauth(ctx context.Context) context.Context {
	return context.WithValue(ctx, oauth2.HTTPClient, c.HTTP)
}

// newEntry is what a sign-in gave.
func (c *Client) newEntry(d *discovered, conf *oauth2.Config, as clientIdentity, tok *oauth2.Token) (*entry, error) {
	if tok.RefreshToken == "" {
		c.Say("The issuer gave no refresh token: this sign-in ends with its first access token. Let the client use the refresh_token grant, and the scope offline_access.")
	}
	e := &entry{Server: c.Server, Issuer: d.issuer, ClientID: as.id, Redirect: as.redirect, TokenURL: d.endpoint.TokenURL,
		RevocationURL: d.metadata.Revocation, Scopes: conf.Scopes}
	return e, e.take(tok, c.now())
}

// take keeps what the token endpoint gave: a refresh token even beside an access
// token that is of no use, because the one before it is spent.
func (e *entry) take(tok *oauth2.Token, now time.Time) error {
	if tok.RefreshToken != "" {
		e.RefreshToken = tok.RefreshToken
	}
	switch {
	case !strings.EqualFold(tok.Type(), "Bearer"):
		return fmt.Errorf("the issuer gave a token of type %s, and the server takes bearer tokens: switch DPoP and the like off for the client %s", tok.Type(), e.ClientID)
	case tok.Expiry.IsZero():
		return errors.New("the issuer did not say how long its token lives (expires_in)")
	}
	e.AccessToken, e.Expiry, e.Taken = tok.AccessToken, tok.Expiry.Round(0), now.Round(0)
	return nil
}

// fresh reports whether the access token lives long enough to be handed out.
func (e *entry) fresh(now time.Time, min time.Duration) bool {
	if half := e.Expiry.Sub(e.Taken) / 2; half < min {
		min = half
	}
	return e.AccessToken != "" && e.Expiry.Sub(now) > min
}

// Token returns an access token that lives at least min or, where tokens live
// shorter than twice that, half their life. It gets a new one from the issuer when
// it has to, under a lock: processes that ask at the same time share one refresh,
// and none spends a refresh token that another has spent.
//
// An error that is [ErrSignIn] says that only [Client.SignIn] helps; others may
// pass by themselves.
func (c *Client) Token(ctx context.Context, min time.Duration) (string, error) {
	unlock, err := c.Store.lock(ctx, c.Server)
	if err != nil {
		return "", err
	}
	defer unlock()
	e, err := c.Store.read(c.Server)
	if errors.Is(err, errNone) {
		return "", fmt.Errorf("no sign-in at %s is kept here: %w", c.Server, ErrSignIn)
	}
	if err != nil {
		return "", err
	}
	if !c.Renew && e.fresh(c.now(), min) {
		return e.AccessToken, nil
	}
	err = c.refresh(ctx, e)
	if err != nil {
		// The issuer may be away for a moment; what lives is still good.
		if !errors.Is(err, ErrSignIn) && e.AccessToken != "" && e.Expiry.After(c.now().Add(time.Second)) {
			c.Say(fmt.Sprintf("%v; the token before it lives until %s", err, e.Expiry.Format(time.TimeOnly)))
			return e.AccessToken, nil
		}
		return "", err
	}
	if !e.Expiry.After(c.now()) {
		return "", fmt.Errorf("the issuer's new token has expired already: it lives too shortly, or this machine was asleep meanwhile; try again")
	}
	return e.AccessToken, nil
}

// refresh spends the refresh token. The lock is held. Once begun it is not
// interrupted: a token that was spent and whose successor was lost is the end of the
// sign-in.
func (c *Client) refresh(ctx context.Context, e *entry) error {
	if e.RefreshToken == "" {
		return fmt.Errorf("the sign-in at %s had no refresh token and is over: %w", c.Server, ErrSignIn)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("refresh the token: %w", ctx.Err())
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	conf := &oauth2.Config{ClientID: e.ClientID, Endpoint: oauth2.Endpoint{TokenURL: e.TokenURL, AuthStyle: oauth2.AuthStyleInParams}}
	// Not by a TokenSource: it can't name the resource (RFC 8707 section 2.2). An
	// empty code goes along, which counts as none (RFC 6749 section 3.2).
	tok, err := conf.Exchange(c.oauth(ctx), "", oauth2.SetAuthURLParam("grant_type", "refresh_token"),
		oauth2.SetAuthURLParam("refresh_token", e.RefreshToken), oauth2.SetAuthURLParam("resource", e.Server))
	if err != nil {
		if over(err) {
			// Never offered again: a spent one that comes back costs the whole family.
			e.RefreshToken, e.AccessToken = "", ""
			return errors.Join(fmt.Errorf("the issuer ended the sign-in at %s (%s): %w", c.Server, said(err), ErrSignIn), c.Store.write(e))
		}
		return refused("refresh the token", err)
	}
	return errors.Join(e.take(tok, c.now()), c.Store.write(e))
}

// over reports whether the issuer wants no more of this refresh token.
func over(err error) bool {
	r, ok := errors.AsType[*oauth2.RetrieveError](err)
	return ok && r.ErrorCode == "invalid_grant"
}

// SignOut revokes the sign-in at the issuer (RFC 7009) and forgets it. When the
// issuer cannot be told, it is kept, unless forget is set.
func (c *Client) SignOut(ctx context.Context, forget bool) error {
	unlock, err := c.Store.lock(ctx, c.Server)
	if err != nil {
		return err
	}
	defer unlock()
	e, err := c.Store.read(c.Server)
	if errors.Is(err, errNone) {
		return fmt.Errorf("no sign-in at %s is kept here", c.Server)
	}
	if err != nil {
		return err
	}
	if e.RefreshToken != "" && !forget {
		if err := c.revoke(ctx, e); err != nil {
			return fmt.Errorf("%w\nThe sign-in is still kept; --forget drops it without telling the issuer", err)
		}
	}
	return c.Store.remove(c.Server)
}

func (c *Client) revoke(ctx context.Context, e *entry) error {
	if e.RevocationURL == "" {
		return fmt.Errorf("the issuer %s takes no sign-in back (no revocation_endpoint)", e.Issuer)
	}
	form := url.Values{"token": {e.RefreshToken}, "token_type_hint": {"refresh_token"}, "client_id": {e.ClientID}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.RevocationURL, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	status, _, err := c.do(req)
	if err != nil {
		return fmt.Errorf("revoke the sign-in: %w%s", err, tlsHint(err))
	}
	if status != http.StatusOK {
		return fmt.Errorf("revoke the sign-in: the issuer answers %d", status)
	}
	return nil
}
