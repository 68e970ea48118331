// Package keys holds the verification keys that a process received from the
// keykeeper, and the messages by which it receives them. It has no network code:
// the monitor links it.
//
// A message is one datagram of a SOCK_SEQPACKET socketpair, at most MaxMessage
// bytes: a JSON object with the last good key set of one issuer. Towards the
// keykeeper there is one message only, the byte Ask. docs/keys.md describes both.
package keys

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"gatehouse/auth/identity"
	"gatehouse/auth/token"
)

const (
	// MaxMessage is the largest message in bytes.
	MaxMessage = 128 << 10
	// MaxIssuer is the longest issuer identifier in bytes.
	MaxIssuer = 1024
	// Ask is the only byte a receiver may send: send again what you have, and
	// fetch when the limit of one asked-for fetch in 10 s allows it.
	Ask = 'R'

	messageVersion = 1
)

// Update is what the keykeeper says about one issuer.
type Update struct {
	Issuer identity.Issuer
	// Keys is the last good set, empty when there never was one.
	Keys []token.Key
	// FetchedAt is when Keys were fetched; zero exactly when Keys is empty.
	FetchedAt time.Time
	// AttemptedAt is when the last attempt that has ended was begun, successful
	// or not; zero when none has.
	AttemptedAt time.Time
	// Health says how that attempt ended.
	Health Health
}

// message is an Update on the wire. Times are Unix nanoseconds, 0 for none.
type message struct {
	Version   int            `json:"v"`
	Issuer    string         `json:"issuer"`
	Health    string         `json:"health"`
	Attempted int64          `json:"attempted_ns"`
	Fetched   int64          `json:"fetched_ns"`
	JWKS      jsontext.Value `json:"jwks,omitzero"`
}

// Encode returns the one form in which u is sent and saved. It fails on what
// Parse would refuse.
func (u Update) Encode() ([]byte, error) {
	if err := u.check(); err != nil {
		return nil, err
	}
	b, err := u.encode()
	if err != nil {
		return nil, fmt.Errorf("encode key message: %w", err)
	}
	if len(b) > MaxMessage {
		return nil, errors.New("encode key message: larger than 128 KiB")
	}
	return b, nil
}

func (u Update) encode() ([]byte, error) {
	m := message{
		Version:   messageVersion,
		Issuer:    string(u.Issuer),
		Health:    string(u.Health),
		Attempted: toNano(u.AttemptedAt),
		Fetched:   toNano(u.FetchedAt),
	}
	if len(u.Keys) > 0 {
		m.JWKS = token.EncodeJWKS(u.Keys)
	}
	return json.Marshal(m)
}

// Parse reads a message. It is strict: only the bytes that Encode makes of the
// result are accepted, so there is one way to say a thing, and the key set goes
// through token.ParseJWKS again. Errors never contain bytes of the message.
func Parse(b []byte) (Update, error) {
	if len(b) > MaxMessage {
		return Update{}, errors.New("parse key message: larger than 128 KiB")
	}
	var m message
	if err := json.Unmarshal(b, &m, json.RejectUnknownMembers(true)); err != nil {
		return Update{}, errors.New("parse key message: not the expected JSON object")
	}
	if m.Version != messageVersion {
		return Update{}, errors.New("parse key message: unknown version")
	}
	u := Update{
		Issuer:      identity.Issuer(m.Issuer),
		FetchedAt:   fromNano(m.Fetched),
		AttemptedAt: fromNano(m.Attempted),
		Health:      Health(m.Health),
	}
	if m.JWKS != nil {
		ks, err := token.ParseJWKS(m.JWKS)
		if err != nil {
			return Update{}, errors.New("parse key message: key set refused")
		}
		u.Keys = ks
	}
	if err := u.check(); err != nil {
		return Update{}, err
	}
	if again, err := u.encode(); err != nil || !bytes.Equal(again, b) {
		return Update{}, errors.New("parse key message: not in the normal form")
	}
	return u, nil
}

// check is what holds for every message, sent or received.
func (u Update) check() error {
	switch {
	case u.Issuer == "" || len(u.Issuer) > MaxIssuer:
		return errors.New("key message: issuer missing or longer than 1 KiB")
	case !u.Health.Valid():
		return errors.New("key message: health is not on the list")
	case (len(u.Keys) == 0) != u.FetchedAt.IsZero():
		return errors.New("key message: keys without the time they were fetched, or the reverse")
	case (u.Health == HealthOK || u.Health == HealthRestored) && len(u.Keys) == 0:
		return errors.New("key message: good health without keys")
	case u.Health == HealthOK && !u.FetchedAt.Equal(u.AttemptedAt):
		return errors.New("key message: good health with keys of an earlier attempt")
	case !representable(u.FetchedAt) || !representable(u.AttemptedAt):
		return errors.New("key message: time out of range")
	}
	return nil
}

// representable reports whether t survives the wire: none, or after 1970 and
// before 2262.
func representable(t time.Time) bool {
	return t.IsZero() || (t.Unix() > 0 && t.Unix() < math.MaxInt64/int64(time.Second))
}

func toNano(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func fromNano(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n)
}
