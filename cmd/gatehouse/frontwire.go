package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"gatehouse/auth"
	"gatehouse/auth/identity"
	"gatehouse/auth/keys"
	"gatehouse/auth/token"
	"gatehouse/cmd/internal/plan"
	"gatehouse/router"
	"gatehouse/session"
	"gatehouse/session/spawn"
)

func issuersOf(p plan.Front) []identity.Issuer {
	out := make([]identity.Issuer, 0, len(p.Tokens))
	for _, t := range p.Tokens {
		out = append(out, identity.Issuer(t.Issuer))
	}
	return out
}

// endWithdrawn ends the sessions whose token was verified by a key that its
// issuer has withdrawn.
func endWithdrawn(table *session.Table, gone []keys.Removed) {
	for _, r := range gone {
		table.EndIf(func(s session.Info) bool {
			return s.Principal.Issuer == r.Issuer && slices.Contains(r.KeyIDs, s.KeyID)
		}, "its token's key was withdrawn by the issuer")
	}
}

func sessionConfig(p plan.Front) session.Config {
	c := session.Config{
		MaxSessions: p.MaxSessions, MaxPerPrincipal: p.MaxPerPrincipal, MaxMessage: int(p.MaxMessage),
		MaxCalls: p.MaxCalls, CredentialGrace: p.CredentialGrace, Lifetime: session.Lifetime(p.Lifetime),
		Replay: session.Replay{Events: p.Replay.Events, Bytes: int(p.Replay.Bytes), Keep: p.Replay.Keep},
	}
	for i, s := range p.Servers {
		c.Interrupt = append(c.Interrupt, s.Interrupt == "sigint")
		if s.Era != "" {
			if c.Eras == nil {
				c.Eras = map[uint16]string{}
			}
			c.Eras[uint16(i)] = s.Era
		}
	}
	if !p.Auth {
		c.MaxPerPrincipal = 0 // everybody is the same principal
	}
	return c
}

// doorConfig makes the door's configuration: a gate for each server.
func doorConfig(p plan.Front, table *session.Table, store *keys.Store) (router.Config, error) {
	cfg := router.Config{
		Loopback: !p.Auth, AllowedOrigins: p.AllowedOrigins, AdvertiseMetadata: p.AdvertisePRM,
		MaxBody: p.MaxBody, Sessions: table,
	}
	if !p.Auth {
		for _, s := range p.Servers {
			cfg.Servers = append(cfg.Servers, router.Server{Path: s.Path, Gate: auth.Loopback{}})
		}
		return cfg, nil
	}
	cfg.Ready = store.Ready
	verifier, err := token.New(policies(p)...)
	if err != nil {
		return cfg, err
	}
	for _, s := range p.Servers {
		required := identity.ScopesOf(s.RequiredScopes)
		gate, err := auth.NewBearer(auth.BearerConfig{
			Verifier: verifier, Keys: store, Audiences: s.Audiences, Required: required,
			MaxTokenBytes: p.MaxTokenBytes, Now: time.Now,
		})
		if err != nil {
			return cfg, fmt.Errorf("server %s: %w", s.Path, err)
		}
		cfg.Servers = append(cfg.Servers, router.Server{Path: s.Path, Gate: gate, Resource: auth.Resource{
			Identifier: s.Resource, Issuers: issuersOf(p), Name: p.ResourceName,
			Scopes: identity.NewScopes(append(identity.ScopesOf(s.ExtraScopes), required...)...),
		}})
	}
	return cfg, nil
}

func policies(p plan.Front) []token.Policy {
	out := make([]token.Policy, 0, len(p.Tokens))
	for _, t := range p.Tokens {
		out = append(out, token.Policy{
			Issuer: identity.Issuer(t.Issuer), Profile: token.Profile(t.Profile), Algorithms: t.Algorithms,
			Leeway: t.Leeway, MaxLifetime: t.MaxLifetime, AllowMissingKeyID: t.AllowMissingKid, AccountClaim: t.AccountClaimName,
		})
	}
	return out
}

// quiet takes what net/http logs: mostly what strangers do wrong in handshakes.
type quiet struct{ logger zerolog.Logger }

func (q quiet) Write(b []byte) (int, error) {
	q.logger.Debug().Str("text", strings.TrimSpace(string(b))).Msg("net/http")
	return len(b), nil
}

// statuses describes the sessions for an operator.
func statuses(table *session.Table, now time.Time) []spawn.SessionStatus {
	var out []spawn.SessionStatus
	for _, s := range table.List() {
		out = append(out, spawn.SessionStatus{
			PID: uint32(s.PID), Idle: uint64(max(now.Sub(s.Active).Milliseconds(), 0)), Calls: uint32(s.Calls), Stream: s.Stream, Label: s.Label,
		})
	}
	return out
}
