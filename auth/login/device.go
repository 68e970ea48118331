package login

import (
	"context"
	"fmt"

	"golang.org/x/oauth2"
)

// byDevice signs in with a browser on any device (RFC 8628). PKCE is sent along:
// Keycloak wants it there too when the client has to use it.
func (c *Client) byDevice(ctx context.Context, d *discovered, old *entry) (*entry, error) {
	if d.endpoint.DeviceAuthURL == "" {
		return nil, fmt.Errorf("the issuer %s has no sign-in with a code (device authorization); leave out --device", d.issuer)
	}
	as, err := c.identify(ctx, d, old, "http://127.0.0.1"+callbackPath)
	if err != nil {
		return nil, err
	}
	conf := &oauth2.Config{ClientID: as.id, Endpoint: d.endpoint, Scopes: c.scopes(d)}
	verifier, resource := oauth2.GenerateVerifier(), oauth2.SetAuthURLParam("resource", d.resource)
	da, err := conf.DeviceAuth(c.oauth(ctx), oauth2.S256ChallengeOption(verifier), resource)
	if err != nil {
		return nil, refused("ask for a code", err)
	}
	code := plain(da.UserCode)
	if da.VerificationURIComplete != "" {
		c.Say(fmt.Sprintf("Open this address in a browser on any device, and compare the code %s:\n\n  %s\n", code, plain(da.VerificationURIComplete)))
	} else {
		c.Say(fmt.Sprintf("Open %s in a browser on any device and enter the code %s\n", plain(da.VerificationURI), code))
	}
	tok, err := conf.DeviceAccessToken(c.oauth(ctx), da, oauth2.VerifierOption(verifier), resource)
	if err != nil {
		return nil, refused("wait for the sign-in", err)
	}
	return c.newEntry(d, conf, as, tok)
}
