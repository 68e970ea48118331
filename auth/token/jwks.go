package token

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Limits of a key set document.
const (
	MaxJWKSBytes = 256 << 10
	MaxKeys      = 64
)

// ParseJWKS reads an issuer's key set (RFC 7517 section 5) and returns the keys
// that may verify tokens, in order. Keys that may not are left out, one by one:
// symmetric and private ones, those for encryption, weak or malformed ones, and
// all but the first of one kid. A document that is no strict JSON, breaks a limit
// or leaves no usable key is an error, and so a failed fetch.
func ParseJWKS(b []byte) ([]Key, error) {
	keys, _, err := ParseJWKSReport(b)
	return keys, err
}

// ParseJWKSReport is [ParseJWKS] that also says which keys were left out and
// why, a line each, for the log.
func ParseJWKSReport(b []byte) (keys []Key, dropped []string, err error) {
	if len(b) > MaxJWKSBytes {
		return nil, nil, fmt.Errorf("read key set: it is longer than %d bytes", MaxJWKSBytes)
	}
	doc, err := decodeObject(b)
	if err != nil {
		return nil, nil, fmt.Errorf("read key set: %w", err)
	}
	raw, found := doc["keys"]
	if !found {
		return nil, nil, errors.New("read key set: it has no member keys")
	}
	members, err := decodeArray(raw, MaxKeys)
	if err != nil {
		return nil, nil, fmt.Errorf("read key set: keys: %w", err)
	}
	for i, m := range members {
		key, err := parseKey(m)
		if err == nil && key.ID != "" && slices.ContainsFunc(keys, func(k Key) bool { return k.ID == key.ID }) {
			err = errors.New("its kid was used before")
		}
		if err != nil {
			dropped = append(dropped, fmt.Sprintf("key %d (kid %s): %v", i+1, quote(key.ID), err))
			continue
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, dropped, fmt.Errorf("read key set: no usable key among %d%s", len(members), firstReason(dropped))
	}
	return keys, dropped, nil
}

func firstReason(dropped []string) string {
	if len(dropped) == 0 {
		return ""
	}
	return "; " + dropped[0]
}

// privateMembers are what only the owner of a key may know (RFC 7518 section 6).
var privateMembers = []string{"d", "p", "q", "dp", "dq", "qi", "oth", "k"}

// parseKey admits one key. The key it returns beside an error holds the kid at most.
func parseKey(raw []byte) (Key, error) {
	o, err := decodeObject(raw)
	if err != nil {
		return Key{}, err
	}
	var key Key
	if key.ID, _, err = o.text("kid", maxKeyID); err != nil {
		return Key{}, err
	}
	for _, name := range privateMembers {
		if _, found := o[name]; found {
			return key, fmt.Errorf("it has the private member %s", name)
		}
	}
	if err := mayVerify(o); err != nil {
		return key, err
	}
	kty, _, err := o.text("kty", 16)
	if err != nil {
		return key, err
	}
	var only string // the algorithm that kty and crv leave, "" for RSA
	switch kty {
	case "RSA":
		key.Public, err = parseRSA(o)
	case "EC":
		key.Public, only, err = parseEC(o)
	case "OKP":
		key.Public, only, err = parseOKP(o)
	default:
		err = fmt.Errorf("kty is %s, want RSA, EC or OKP", quote(kty))
	}
	if err != nil {
		return key, err
	}
	key.Algorithm, err = algorithmOf(o, only)
	return key, err
}

// mayVerify obeys use and key_ops (RFC 7517 sections 4.2 and 4.3).
func mayVerify(o object) error {
	if use, found, err := o.text("use", 64); err != nil {
		return err
	} else if found && use != "sig" {
		return fmt.Errorf("its use is %s, not sig", quote(use))
	}
	raw, found := o["key_ops"]
	if !found {
		return nil
	}
	ops, err := decodeArray(raw, 16)
	if err != nil {
		return fmt.Errorf("key_ops: %w", err)
	}
	for _, m := range ops {
		op, err := unquote(m)
		if err != nil {
			return fmt.Errorf("a member of key_ops %w", err)
		}
		if op == "verify" {
			return nil
		}
	}
	return errors.New("its key_ops do not have verify")
}

// algorithmOf returns the one algorithm of a key: alg (RFC 7517 section 4.4),
// else the one that the curve leaves, else RS256 for RSA keys without alg.
func algorithmOf(o object, only string) (string, error) {
	alg, found, err := o.text("alg", 32)
	if err != nil {
		return "", err
	}
	name := canonicalAlgorithm(alg)
	switch {
	case !found && only != "":
		return only, nil
	case !found:
		return "RS256", nil
	case signingMethods[name] == nil:
		return "", fmt.Errorf("its alg %s verifies no signature", quote(alg))
	case only != "" && name != only:
		return "", fmt.Errorf("its alg is %s, but its curve is for %s", alg, only)
	case only == "" && !strings.HasPrefix(name, "RS") && !strings.HasPrefix(name, "PS"):
		return "", fmt.Errorf("its alg %s is not for RSA keys", alg)
	}
	return name, nil
}
