package token

import (
	"fmt"
	"time"

	"gatehouse/auth/identity"
)

// check is one rule. run returns nil when the token passes; shown tells what was
// seen when it did, for Explain only.
type check struct {
	name  string
	gate  bool // the checks behind it need what it found
	run   func(*judgement) *Refusal
	shown func(*judgement) string
}

// checks is the whole verdict on a token, in this order. A token is accepted
// when every one of them passes. Nothing below "signature" is looked at before
// the signature holds. docs/tokens.md gives each one's reason and section.
var checks = []check{
	{"size", true, checkSize, showSize},
	{"segments", true, checkSegments, nil},
	{"encoding", true, checkEncoding, nil},
	{"header-json", true, checkHeaderJSON, nil},
	{"header-parameters", true, checkHeaderParameters, nil},
	{"algorithm", true, checkAlgorithm, showAlgorithm},
	{"key", true, checkKey, showKey},
	{"signature", true, checkSignature, showSignature},
	{"payload-json", true, checkPayloadJSON, showPayload},
	{"header-type", false, checkHeaderType, showHeaderType},
	{"payload-type", false, checkPayloadType, showPayloadType},
	{"other-types", false, checkOtherTypes, nil},
	{"issuer", false, checkIssuer, showIssuer},
	{"audience", false, checkAudience, showAudience},
	{"expiry", false, checkExpiry, showExpiry},
	{"issued-at", false, checkIssuedAt, showIssuedAt},
	{"not-before", false, checkNotBefore, showNotBefore},
	{"lifetime", false, checkLifetime, showLifetime},
	{"subject", false, checkSubject, showSubject},
	{"client", false, checkClient, showClient},
	{"token-id", false, checkTokenID, showTokenID},
	{"session-id", false, checkSessionID, nil},
	{"binding", false, checkBinding, nil},
	{"delegation", false, checkDelegation, nil},
	{"scope", false, checkScope, showScope},
	{"account-claim", false, noteAccountClaim, showAccountClaim},
	{"client-own", false, noteClientOwn, showClientOwn},
}

// judgement is one token on its way through the checks: what goes in, and what
// the checks found so far.
type judgement struct {
	verifier  *Verifier
	raw       string
	audiences []string
	keys      *KeySet
	now       time.Time

	headerPart, payloadPart, signaturePart string
	headerJSON, signature                  []byte
	header                                 header
	candidates                             []candidate
	policy                                 *Policy
	rules                                  *profileRules
	claims                                 object
	token                                  Token
}

// candidate is a key that may have signed the token.
type candidate struct {
	issuer identity.Issuer
	key    *Key
}

func newJudgement(v *Verifier, raw string, audiences []string, keys *KeySet, now time.Time) *judgement {
	if v == nil {
		v = &Verifier{}
	}
	return &judgement{verifier: v, raw: raw, audiences: audiences, keys: keys, now: now}
}

// verdict runs one check and signs its refusal.
func (c *check) verdict(j *judgement) *Refusal {
	r := c.run(j)
	if r != nil {
		r.Check = c.name
	}
	return r
}

func refuse(kind Kind, format string, args ...any) *Refusal {
	return &Refusal{Kind: kind, Reason: fmt.Sprintf(format, args...)}
}

// seconds rounds a duration for reasons.
func seconds(d time.Duration) string {
	return fmt.Sprintf("%d s", int64(d/time.Second))
}
