// Package seal makes the requestState that clients of the modern era carry from one
// round of a request to the next (MCP 2026-07-28, basic/patterns/mrtr): an AEAD
// under keys that live in this process alone and rotate, bound to who asked for
// what. Nothing in it can be read or changed, and it is worth nothing with another
// principal, server, method or request.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// ErrState says that a state is not one of ours, was changed, belongs to somebody
// or something else, or is too old. Which of them is nobody's business.
var ErrState = errors.New("seal: the state does not fit")

// MaxState is the length in characters above which no state is looked at.
const MaxState = 64 << 10

// Lifetime is how long a state may be opened; a key is used for as long and kept
// for twice that.
const Lifetime = 15 * time.Minute

// Sealer seals and opens. The zero Sealer does neither.
type Sealer struct {
	now  func() time.Time
	rand io.Reader

	mu   sync.Mutex // guards what follows
	keys []key      // the newest last; at most two
	last uint32     // id of the newest
}

type key struct {
	id    uint32
	aead  cipher.AEAD
	since time.Time
}

// New returns a Sealer with its clock and its source of keys and nonces.
func New(now func() time.Time, rand io.Reader) *Sealer { return &Sealer{now: now, rand: rand} }

const (
	headBytes = 4 // the key's id
	timeBytes = 8 // the expiry, Unix milliseconds
	keyBytes  = 32
)

// Seal returns the state that holds payload for as long as Lifetime. The binding is
// not in it, and must be the same when it is opened.
func (s *Sealer) Seal(payload, binding []byte) (string, error) {
	k, err := s.current()
	if err != nil {
		return "", err
	}
	out := binary.BigEndian.AppendUint32(nil, k.id)
	nonce := make([]byte, k.aead.NonceSize())
	if _, err := io.ReadFull(s.rand, nonce); err != nil {
		return "", fmt.Errorf("seal: draw a nonce: %w", err)
	}
	out = append(out, nonce...)
	plain := binary.BigEndian.AppendUint64(nil, uint64(s.now().Add(Lifetime).UnixMilli()))
	out = k.aead.Seal(out, nonce, append(plain, payload...), bound(out[:headBytes], binding))
	return base64.RawURLEncoding.EncodeToString(out), nil
}

// Open returns what a state holds, or ErrState.
func (s *Sealer) Open(state string, binding []byte) ([]byte, error) {
	if s.now == nil || len(state) > MaxState || strings.ContainsAny(state, "\r\n") {
		return nil, ErrState
	}
	// The last character's unused bits must be zero, and there are no line breaks, so
	// that each state has one spelling.
	raw, err := base64.RawURLEncoding.Strict().DecodeString(state)
	if err != nil || len(raw) < headBytes {
		return nil, ErrState
	}
	aead := s.byID(binary.BigEndian.Uint32(raw))
	if aead == nil || len(raw) < headBytes+aead.NonceSize() {
		return nil, ErrState
	}
	head, rest := raw[:headBytes], raw[headBytes:]
	plain, err := aead.Open(nil, rest[:aead.NonceSize()], rest[aead.NonceSize():], bound(head, binding))
	if err != nil || len(plain) < timeBytes {
		return nil, ErrState
	}
	if until := binary.BigEndian.Uint64(plain); uint64(s.now().UnixMilli()) >= until {
		return nil, ErrState
	}
	return plain[timeBytes:], nil
}

// bound is the additional data: the key's id and the binding.
func bound(head, binding []byte) []byte {
	return append(append(make([]byte, 0, len(head)+len(binding)), head...), binding...)
}

// current is the key to seal with, a new one when the last is old.
func (s *Sealer) current() (key, error) {
	if s.now == nil {
		return key{}, errors.New("seal: no key")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if n := len(s.keys); n > 0 && now.Sub(s.keys[n-1].since) < Lifetime {
		return s.keys[n-1], nil
	}
	secret := make([]byte, keyBytes)
	if _, err := io.ReadFull(s.rand, secret); err != nil {
		return key{}, fmt.Errorf("seal: draw a key: %w", err)
	}
	block, err := aes.NewCipher(secret)
	if err != nil {
		return key{}, fmt.Errorf("seal: make the cipher: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return key{}, fmt.Errorf("seal: make the cipher: %w", err)
	}
	s.last++
	k := key{id: s.last, aead: aead, since: now}
	s.keys = append(s.keys[max(0, len(s.keys)-1):], k)
	return k, nil
}

func (s *Sealer) byID(id uint32) cipher.AEAD {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.keys {
		if k.id == id {
			return k.aead
		}
	}
	return nil
}
