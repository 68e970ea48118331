package token

import (
	"fmt"
	"maps"
	"slices"
)

// header is what a JOSE header may say here.
type header struct {
	object  object
	alg     string
	kid     string
	hasKID  bool
	typ     string
	hasType bool
}

// maxKeyID is the longest kid, in bytes.
const maxKeyID = 256

// headerParameters are the only parameters that may be present; all others are
// refused. That covers crit (RFC 7515 section 4.1.11: what is critical must be
// understood, and we understand no extension), b64 (RFC 7797 section 7), zip,
// enc and cty (encrypted and nested tokens), and the embedded keys jwk and x5c.
// jku and x5u are never followed, x5t and x5t#S256 never compared.
var headerParameters = []string{"alg", "kid", "typ", "x5t", "x5t#S256", "jku", "x5u"}

func checkHeaderJSON(j *judgement) *Refusal {
	o, err := decodeObject(j.headerJSON)
	if err != nil {
		return refuse(KindMalformed, "header: %v", err)
	}
	j.header.object = o
	return nil
}

func checkHeaderParameters(j *judgement) *Refusal {
	h := &j.header
	for _, name := range slices.Sorted(maps.Keys(h.object)) { // sorted: the same reason every time
		raw := h.object[name]
		if !slices.Contains(headerParameters, name) {
			return refuse(KindMalformed, "header parameter %s is not taken", quote(name))
		}
		if raw.Kind() != '"' {
			return refuse(KindMalformed, "header parameter %s is %s, want a string", name, kindName(raw))
		}
	}
	var err error
	var found bool
	if h.alg, found, err = h.object.text("alg", 16); err != nil {
		return refuse(KindMalformed, "header: %v", err)
	} else if !found {
		return refuse(KindMalformed, "the header has no alg")
	}
	if h.kid, h.hasKID, err = h.object.text("kid", maxKeyID); err != nil {
		return refuse(KindMalformed, "header: %v", err)
	}
	if h.typ, h.hasType, err = h.object.text("typ", 64); err != nil {
		return refuse(KindMalformed, "header: %v", err)
	}
	return nil
}

// checkAlgorithm refuses what no configured issuer may use, before any key is
// looked up, so that such a token can't ask for a fetch of keys.
func checkAlgorithm(j *judgement) *Refusal {
	if len(j.verifier.policies) == 0 {
		return refuse(KindUnverifiable, "no issuer is configured")
	}
	name := canonicalAlgorithm(j.header.alg)
	for _, p := range j.verifier.policies {
		if slices.Contains(p.Algorithms, name) {
			return nil
		}
	}
	return refuse(KindUnverifiable, "alg %s is not allowed for any issuer", quote(j.header.alg))
}

func showAlgorithm(j *judgement) string { return j.header.alg }

// checkKey finds our own keys of the token's kid and wants alg to be exactly the
// algorithm that the key is used for (RFC 8725bis section 3.1). Two issuers may
// use the same kid; the signature then decides between them.
func checkKey(j *judgement) *Refusal {
	if !j.header.hasKID {
		return j.checkOnlyKey()
	}
	found := j.keys.find(j.header.kid)
	known := false
	var mismatch string
	for _, c := range found {
		p := j.verifier.policies[c.issuer]
		if p == nil {
			continue
		}
		known = true
		if why := usable(j, p, c); why != "" {
			mismatch = why
			continue
		}
		j.candidates = append(j.candidates, c)
	}
	switch {
	case !known:
		r := refuse(KindUnknownKey, "kid %s is in no issuer's key set", quote(j.header.kid))
		r.KeyID = j.header.kid
		return r
	case len(j.candidates) == 0:
		return refuse(KindUnverifiable, "%s", mismatch)
	}
	return nil
}

// checkOnlyKey serves issuers that send no kid and have exactly one key, where
// the policy allows it.
func (j *judgement) checkOnlyKey() *Refusal {
	why := "the header has no kid, and no issuer is configured to do without"
	for iss, p := range j.verifier.policies {
		if !p.AllowMissingKeyID {
			continue
		}
		keys := j.keys.Keys(iss)
		if len(keys) != 1 {
			why = fmt.Sprintf("the header has no kid, and issuer %s has %d keys, not one", quote(string(iss)), len(keys))
			continue
		}
		c := candidate{iss, &keys[0]}
		if mismatch := usable(j, p, c); mismatch != "" {
			why = mismatch
			continue
		}
		j.candidates = append(j.candidates, c)
	}
	if len(j.candidates) == 0 {
		return refuse(KindUnverifiable, "%s", why)
	}
	return nil
}

// usable says why a key may not verify this token, "" when it may.
func usable(j *judgement, p *Policy, c candidate) string {
	switch {
	case c.key.Algorithm != canonicalAlgorithm(j.header.alg):
		return fmt.Sprintf("alg is %s, but key %s of issuer %s is for %s only",
			quote(j.header.alg), quote(c.key.ID), quote(string(c.issuer)), c.key.Algorithm)
	case !slices.Contains(p.Algorithms, c.key.Algorithm):
		return fmt.Sprintf("alg %s is not allowed for issuer %s", quote(j.header.alg), quote(string(c.issuer)))
	}
	return ""
}

func showKey(j *judgement) string {
	if !j.header.hasKID {
		return "no kid; the issuer's only key"
	}
	return "kid " + quote(j.header.kid)
}
