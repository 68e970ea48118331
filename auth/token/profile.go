package token

import (
	"fmt"
	"slices"
	"strings"
)

// profileRules is what differs between issuers. A profile is written from
// recorded tokens of that issuer, never guessed.
type profileRules struct {
	headerTypes  []string // permitted typ of the header, in lower case
	payloadTypes []string // permitted typ claim, exact; empty: the claim means nothing
	clientClaim  string
	audienceHint func(*judgement) string
	subjectHint  func(*judgement) string
	clientHint   func(*judgement) string
	own          func(*judgement) string // why no user stands behind the token
}

var profiles = map[Profile]*profileRules{
	ProfileRFC9068: {
		headerTypes:  []string{"at+jwt", "application/at+jwt"},
		clientClaim:  "client_id",
		audienceHint: noHint,
		subjectHint:  noHint,
		clientHint:   missingClientHint,
		own:          noHint,
	},
	ProfileKeycloak: {
		headerTypes:  []string{"jwt", "at+jwt", "application/at+jwt"},
		payloadTypes: []string{"Bearer"},
		clientClaim:  "azp",
		audienceHint: keycloakAudienceHint,
		subjectHint:  keycloakSubjectHint,
		clientHint:   noHint,
		own:          keycloakOwn,
	},
}

func noHint(*judgement) string { return "" }

// checkHeaderType wants the media type of access tokens (RFC 9068 section 4,
// RFC 8725 section 3.11), compared as media types are: without regard to case.
func checkHeaderType(j *judgement) *Refusal {
	want := j.rules.headerTypes
	switch {
	case !j.header.hasType:
		return refuse(KindWrongType, "the header has no typ; want %s", quoteAll(want))
	case !slices.Contains(want, asciiLower(j.header.typ)):
		return refuse(KindWrongType, "header typ is %s, want one of %s%s", quote(j.header.typ), quoteAll(want), headerTypeHint(j))
	}
	return nil
}

func showHeaderType(j *judgement) string { return "typ " + quote(j.header.typ) }

// asciiLower lowers A to Z alone: "AT+JWT" with a Kelvin sign is not at+jwt.
func asciiLower(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

func headerTypeHint(j *judgement) string {
	if _, ok := j.claims["typ"]; ok && j.policy.Profile == ProfileRFC9068 && asciiLower(j.header.typ) == "jwt" {
		return " (a Keycloak token? then set the token profile to keycloak)"
	}
	return ""
}

// checkPayloadType wants Keycloak's own mark of an access token. ID, refresh and
// logout tokens of a realm are signed by the same key and differ here only.
func checkPayloadType(j *judgement) *Refusal {
	want := j.rules.payloadTypes
	if len(want) == 0 {
		return nil
	}
	typ, found, err := j.claims.text("typ", 64)
	switch {
	case err != nil:
		return refuse(KindWrongType, "payload: %v", err)
	case !found:
		return refuse(KindWrongType, "the payload has no typ; want %s", quoteAll(want))
	case slices.Contains(want, typ):
		return nil
	case typ == "DPoP":
		return refuse(KindWrongType, "payload typ is \"DPoP\": the token is bound to a key and may not be presented as Bearer "+
			"(the client sent a DPoP header to Keycloak, or has dpop.bound.access.tokens on)")
	case typ == "ID":
		return refuse(KindWrongType, "payload typ is \"ID\": this is an ID token; the client must send its access token")
	}
	return refuse(KindWrongType, "payload typ is %s, want one of %s", quote(typ), quoteAll(want))
}

func showPayloadType(j *judgement) string {
	if len(j.rules.payloadTypes) == 0 {
		return "means nothing in this profile"
	}
	return "typ " + string(j.claims["typ"])
}

// otherTypes are claims that an access token never has, and what has them.
var otherTypes = []struct{ claim, what string }{
	{"events", "a logout token or security event (RFC 8417)"},
	{"at_hash", "an ID token"},
	{"c_hash", "an ID token"},
	{"s_hash", "an ID token"},
	{"token_introspection", "an introspection response (RFC 9701)"},
}

func checkOtherTypes(j *judgement) *Refusal {
	for _, t := range otherTypes {
		if _, found := j.claims[t.claim]; found {
			return refuse(KindWrongType, "claim %s is present: this is %s", t.claim, t.what)
		}
	}
	return nil
}

// checkBinding refuses bound tokens: presented as Bearer their binding would be
// ignored (RFC 9449 section 7.2, RFC 8705 section 3). An unknown member of cnf
// binds to something that we can't check.
func checkBinding(j *judgement) *Refusal {
	raw, found := j.claims["cnf"]
	if !found {
		return nil
	}
	how := "in a way that is not supported"
	if o, err := decodeObject(raw); err == nil {
		if _, ok := o["jkt"]; ok {
			how = "to a DPoP key (cnf.jkt)"
		} else if _, ok := o["x5t#S256"]; ok {
			how = "to a client certificate (cnf.x5t#S256)"
		}
	}
	return refuse(KindWrongType, "the token is bound %s and may not be presented as Bearer", how)
}

// checkDelegation refuses tokens that one party uses in another's name
// (RFC 8693 sections 4.1 and 4.4): which of the two the worker should run as is
// for no default to say.
func checkDelegation(j *judgement) *Refusal {
	for _, name := range []string{"act", "may_act"} {
		if _, found := j.claims[name]; found {
			return refuse(KindWrongType, "claim %s is present: delegated tokens are not taken", name)
		}
	}
	return nil
}

// noteClientOwn finds tokens without a user. A client must not pass for a user of
// the same name (RFC 9068 section 5, RFC 9700 section 4.15); such a token is
// good, though, and is refused later, as one without an account is.
func noteClientOwn(j *judgement) *Refusal {
	why := ownMark(j)
	if why == "" {
		why = j.rules.own(j)
	}
	j.token.ClientOwn, j.token.ClientOwnReason = why != "", why
	return nil
}

func showClientOwn(j *judgement) string {
	if j.token.ClientOwn {
		return "no user stands behind it: " + j.token.ClientOwnReason
	}
	return "a user's token"
}

// ownMark knows the marks that issuers of any profile use.
func ownMark(j *judgement) string {
	sub := string(j.token.Principal.Subject)
	if sub != "" && sub == string(j.token.Principal.Client) {
		return "sub is the client id"
	}
	is := func(claim, value string) bool {
		s, found, err := j.claims.text(claim, maxClientID)
		return found && err == nil && s == value
	}
	switch {
	case sub != "" && is("cid", sub):
		return "sub is the client id (cid)"
	case is("idtyp", "app"):
		return `idtyp is "app"`
	case is("gty", "client-credentials"):
		return `gty is "client-credentials"`
	case is("token_use", "id"):
		return `token_use is "id"`
	}
	return ""
}

func missingClientHint(j *judgement) string {
	if _, ok := j.claims["azp"]; ok {
		return fmt.Sprintf(" but azp %s (a Keycloak token? then set the token profile to keycloak)", plain(string(j.claims["azp"])))
	}
	return ""
}
