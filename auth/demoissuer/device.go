package demoissuer

import (
	"context"
	"errors"
	"maps"
	"strings"
	"time"

	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// device is one device grant under way (RFC 8628).
type device struct {
	state     *op.DeviceAuthorizationState
	userCode  string
	resource  string
	challenge string // PKCE, when the client sent one
}

func (s *store) StoreDeviceAuthorization(_ context.Context, clientID, deviceCode, userCode string, expires time.Time, scopes []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Now()
	maps.DeleteFunc(s.devices, func(_ string, d *device) bool { return now.After(d.state.Expires) })
	if len(s.devices) >= maxPending {
		return errors.New("too many device codes under way; try again in ten minutes")
	}
	for _, d := range s.devices {
		if d.userCode == userCode {
			return op.ErrDuplicateUserCode
		}
	}
	s.devices[deviceCode] = &device{
		userCode: userCode,
		state:    &op.DeviceAuthorizationState{ClientID: clientID, Scopes: offline(scopes), Expires: expires, AMR: []string{"pwd"}},
	}
	return nil
}

// bindDevice adds what the library does not keep.
func (s *store) bindDevice(deviceCode, resource, challenge string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.devices[deviceCode]; d != nil {
		d.resource, d.challenge = resource, challenge
	}
}

// checkDeviceVerifier wants the code_verifier of the challenge that the grant
// began with, when it began with one.
func (s *store) checkDeviceVerifier(deviceCode, verifier string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.devices[deviceCode]
	if d == nil || d.challenge == "" {
		return nil // unknown codes are refused by the library
	}
	if !oidc.VerifyCodeChallenge(&oidc.CodeChallenge{Challenge: d.challenge, Method: oidc.CodeChallengeMethodS256}, verifier) {
		return oidc.ErrInvalidGrant().WithDescription("invalid code_verifier")
	}
	return nil
}

// GetDeviceAuthorizatonState returns a copy: the library reads it after mu is free.
func (s *store) GetDeviceAuthorizatonState(_ context.Context, clientID, deviceCode string) (*op.DeviceAuthorizationState, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.devices[deviceCode]
	if d == nil || d.state.ClientID != clientID {
		return nil, errors.New("unknown or spent device code")
	}
	if d.state.Done {
		return d.state, nil // frozen, and the key by which spendDevice finds it
	}
	c := *d.state
	return &c, nil
}

// spendDevice makes a device code good for one token. The caller holds mu.
func (s *store) spendDevice(state *op.DeviceAuthorizationState) (string, error) {
	for code, d := range s.devices {
		if d.state == state {
			delete(s.devices, code)
			return d.resource, nil
		}
	}
	return "", oidc.ErrInvalidGrant().WithDescription("the device code was used before")
}

// deviceClient returns the client that waits under a user code.
func (s *store) deviceClient(userCode string) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.byUserCode(userCode)
	if d == nil {
		return "", false
	}
	return d.state.ClientID, true
}

// byUserCode finds an open grant. The caller holds mu.
func (s *store) byUserCode(userCode string) *device {
	plain := func(c string) string { return strings.ToUpper(strings.ReplaceAll(strings.TrimSpace(c), "-", "")) }
	for _, d := range s.devices {
		if plain(d.userCode) == plain(userCode) && !d.state.Done && !d.state.Denied && s.cfg.Now().Before(d.state.Expires) {
			return d
		}
	}
	return nil
}

// decideDevice lets the device in as u, or turns it away when u is nil.
func (s *store) decideDevice(userCode string, u *User) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.byUserCode(userCode)
	if d == nil {
		return errors.New("this code is unknown or too old: start again at the client")
	}
	if u == nil {
		d.state.Denied = true
		return nil
	}
	d.state.Done, d.state.Subject, d.state.AuthTime = true, u.Subject, s.cfg.Now()
	return nil
}
