package demoissuer

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"testing"
	"time"

	"gatehouse/auth/identity"
	"gatehouse/auth/token"
)

// TestStrictVerifierTakesTheTokens: what the demo issues passes every check of
// the resource server, by each way to get it, and its ID and refresh tokens do not.
func TestStrictVerifierTakesTheTokens(t *testing.T) {
	w := start(t)
	_, jwks, _ := w.get(w.url + "/keys")
	keys, err := token.ParseJWKS([]byte(jwks))
	if err != nil {
		t.Fatal(err)
	}
	iss := identity.Issuer(w.url)
	set := token.NewKeySet(map[identity.Issuer][]token.Key{iss: keys})
	v, err := token.New(token.Policy{Issuer: iss, Profile: token.ProfileRFC9068, Leeway: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	verify := func(raw string) (*token.Token, error) { return v.Verify(raw, []string{resource}, set, time.Now()) }

	minted, err := w.issuer.Mint(Mint{User: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	tok := w.token(NativeClient, "alice")
	_, body := w.refresh(NativeClient, tok.RefreshToken)
	var refreshed, machine struct {
		Access string `json:"access_token"`
	}
	json.Unmarshal([]byte(body), &refreshed)
	status, body, _ := w.post("/oauth/token", url.Values{"grant_type": {"client_credentials"},
		"client_id": {MachineClient}, "client_secret": {w.issuer.Password()}, "scope": {"mcp:use"}})
	if err := json.Unmarshal([]byte(body), &machine); err != nil || status != http.StatusOK {
		t.Fatalf("client credentials: %d %s", status, body)
	}

	for name, raw := range map[string]string{"command": minted, "code": tok.AccessToken, "refresh": refreshed.Access} {
		got, err := verify(raw)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got.Principal.Subject != "demo-alice" || !got.Scopes.Has("mcp:use") || got.ClientOwn {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got, err := verify(machine.Access); err != nil || !got.ClientOwn {
		t.Errorf("client credentials: %+v, %v; want a client's own token", got, err)
	}
	other, err := w.issuer.Mint(Mint{User: "alice", Audience: "https://other.example/mcp"})
	if err != nil {
		t.Fatal(err)
	}
	none := ""
	scopeless, err := w.issuer.Mint(Mint{User: "alice", Scope: &none})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := verify(scopeless); err != nil || got.Scopes.Has("mcp:use") {
		t.Errorf("without scopes: %+v, %v; want a good token without mcp:use", got, err)
	}
	expired, err := w.issuer.Mint(Mint{User: "alice", Life: -time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		raw  string
		kind token.Kind
	}{
		"other audience": {other, token.KindWrongAudience},
		"expired":        {expired, token.KindExpired},
		"ID token":       {tok.Extra("id_token").(string), token.KindWrongType},
		"refresh token":  {tok.RefreshToken, token.KindMalformed},
	} {
		_, err := verify(c.raw)
		var r *token.Refusal
		if !errors.As(err, &r) || r.Kind != c.kind {
			t.Errorf("%s: %v, want kind %v", name, err, c.kind)
		}
	}
}
