package seal

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"strings"
	"testing"
	"time"
)

// clock is a time that tests move.
type clock struct{ t time.Time }

func (c *clock) now() time.Time { return c.t }

func sealer() (*Sealer, *clock) {
	c := &clock{time.Unix(1_800_000_000, 0)}
	return New(c.now, rand.Reader), c
}

func TestSeal(t *testing.T) {
	s, _ := sealer()
	binding := []byte("alice at /mcp calls t")
	state, err := s.Seal([]byte("the payload"), binding)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Open(state, binding); err != nil || string(got) != "the payload" {
		t.Errorf("%q, %v", got, err)
	}
	raw, _ := base64.RawURLEncoding.DecodeString(state)
	if bytes.Contains(raw, []byte("payload")) || bytes.Contains(raw, []byte("alice")) {
		t.Error("the state can be read")
	}
	again, _ := s.Seal([]byte("the payload"), binding)
	if again == state {
		t.Error("two states of the same payload are the same")
	}
	if got, err := s.Open(state, binding); err != nil || string(got) != "the payload" {
		t.Errorf("a second time: %q, %v", got, err)
	}
}

func TestForeignStates(t *testing.T) {
	s, _ := sealer()
	other, _ := sealer()
	binding := []byte("alice")
	state, _ := s.Seal([]byte("p"), binding)
	foreign, _ := other.Seal([]byte("p"), binding)
	var zero Sealer
	if _, err := zero.Open(state, binding); err != ErrState {
		t.Errorf("the zero Sealer opens: %v", err)
	}
	if _, err := zero.Seal(nil, nil); err == nil {
		t.Error("the zero Sealer seals")
	}
	for name, c := range map[string]struct{ state, binding string }{
		"another binding":     {state, "bob"},
		"a longer binding":    {state, "alice "},
		"no binding":          {state, ""},
		"another process":     {foreign, "alice"},
		"cut":                 {state[:len(state)-2], "alice"},
		"longer":              {state + "AA", "alice"},
		"tampered":            {state + "-TAMPERED", "alice"},
		"empty":               {"", "alice"},
		"short":               {"AAAA", "alice"},
		"no base64":           {"!!!!", "alice"},
		"padding":             {state + "=", "alice"},
		"too long":            {strings.Repeat("A", MaxState+1), "alice"},
		"a space in front":    {" " + state, "alice"},
		"line break":          {state[:4] + "\n" + state[4:], "alice"},
		"another key's id":    {flip(state, 0), "alice"},
		"another nonce":       {flip(state, 8), "alice"},
		"another first byte":  {flip(state, 30), "alice"},
		"another last byte":   {flip(state, len(state)-3), "alice"},
		"unused bits are set": {state[:len(state)-1] + string(unused(state[len(state)-1])), "alice"},
	} {
		if got, err := s.Open(c.state, []byte(c.binding)); err != ErrState {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// flip changes one character of a state.
func flip(state string, at int) string {
	i := strings.IndexByte(alphabet, state[at])
	return state[:at] + string(alphabet[i^32]) + state[at+1:]
}

// unused is a last character that a lax decoder takes for c.
func unused(c byte) byte { return alphabet[strings.IndexByte(alphabet, c)|1] }

func TestExpiryAndRotation(t *testing.T) {
	s, c := sealer()
	first, _ := s.Seal([]byte("1"), nil)
	c.t = c.t.Add(Lifetime - time.Second)
	if _, err := s.Open(first, nil); err != nil {
		t.Errorf("before its end: %v", err)
	}
	late, _ := s.Seal([]byte("2"), nil) // under the same key
	c.t = c.t.Add(time.Second)
	if _, err := s.Open(first, nil); err != ErrState {
		t.Errorf("at its end: %v", err)
	}
	next, _ := s.Seal([]byte("3"), nil)
	if next[:6] == late[:6] {
		t.Error("the key did not change")
	}
	for name, state := range map[string]string{"under the last key": late, "under the new one": next} {
		if _, err := s.Open(state, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	c.t = c.t.Add(Lifetime)
	if _, err := s.Open(late, nil); err != ErrState {
		t.Errorf("after its end: %v", err)
	}
	for range 5 {
		c.t = c.t.Add(Lifetime)
		if _, err := s.Seal(nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.keys) != 2 {
		t.Errorf("%d keys are kept, want 2", len(s.keys))
	}
}

// FuzzOpen: nothing that was not sealed here opens.
func FuzzOpen(f *testing.F) {
	s, _ := sealer()
	state, _ := s.Seal([]byte("p"), []byte("b"))
	f.Add(state, []byte("b"))
	f.Add(flip(state, 5), []byte("b"))
	f.Add("", []byte(nil))
	f.Fuzz(func(t *testing.T, text string, binding []byte) {
		got, err := s.Open(text, binding)
		if err == nil && (text != state || string(binding) != "b" || string(got) != "p") {
			t.Errorf("%q opened for %q: %q", text, binding, got)
		}
	})
}
