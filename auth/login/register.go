package login

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// clientIdentity is the client that we are to an issuer.
type clientIdentity struct {
	id string
	// redirect is what it was registered with; empty for a client that exists
	// without us and allows any port.
	redirect string
}

// identify says as which client to ask. redirect is where a browser would bring the
// code; a registration is for exactly that address.
func (c *Client) identify(ctx context.Context, d *discovered, old *entry, redirect string) (clientIdentity, error) {
	if c.ClientID != "" {
		return clientIdentity{id: c.ClientID}, nil
	}
	if old != nil && old.Issuer == d.issuer && old.ClientID != "" && (old.Redirect == "" || old.Redirect == redirect) {
		return clientIdentity{old.ClientID, old.Redirect}, nil
	}
	if d.metadata.Registration == "" {
		return clientIdentity{id: DefaultClient}, nil
	}
	id, err := c.register(ctx, d, redirect)
	if ctx.Err() != nil {
		return clientIdentity{}, err
	}
	if err != nil {
		c.Say(fmt.Sprintf("The issuer registers no client for us (%v); going on as its client %q. If it has none of that name, name one with --client-id.", err, DefaultClient))
		return clientIdentity{id: DefaultClient}, nil
	}
	return clientIdentity{id, redirect}, nil
}

// register makes a public client at the issuer (RFC 7591 section 3).
func (c *Client) register(ctx context.Context, d *discovered, redirect string) (string, error) {
	if _, err := checkURL(d.metadata.Registration); err != nil {
		return "", err
	}
	body, err := json.Marshal(map[string]any{
		"client_name":                "gatehouse login",
		"application_type":           "native", // else it counts as web, which may have no http on loopback
		"redirect_uris":              []string{redirect},
		"grant_types":                []string{"authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"},
		"response_types":             []string{"code"},
		"token_endpoint_auth_method": "none",
		"scope":                      strings.Join(c.scopes(d), " "),
	})
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.metadata.Registration, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	status, answer, err := c.do(req)
	if err != nil {
		return "", err
	}
	var got struct {
		ID          string `json:"client_id"`
		Secret      string `json:"client_secret"`
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	_ = json.Unmarshal(answer, &got) // what is no JSON has none of these
	switch {
	case status/100 != 2 && got.Error != "":
		return "", fmt.Errorf("%d %s", status, plain(got.Error+": "+got.Description))
	case status/100 != 2 || got.ID == "":
		return "", fmt.Errorf("its answer is %d without a client_id", status)
	case got.Secret != "":
		return "", fmt.Errorf("it insists on a client secret")
	}
	return got.ID, nil
}
