package token

// Kind is the closed list of grounds for refusing a token. The zero value is no
// ground of its own and reads like [KindUnverifiable] in public.
type Kind uint8

// The grounds. Before the signature holds only the first three are used.
const (
	_                 Kind = iota
	KindMalformed          // not a token that could be judged
	KindUnverifiable       // no acceptable algorithm, key or signature
	KindUnknownKey         // names a key that is not in the set: another set may have it
	KindWrongType          // signed by the issuer, but no access token that may be used here
	KindWrongIssuer        // iss is not the issuer whose key signed it
	KindWrongAudience      // aud does not name this resource
	KindExpired            // exp + leeway is over
	KindNotYetValid        // nbf or iat - leeway is still to come
	KindBadClaims          // signed by the issuer, with claims that break the rules
)

// Public returns the fixed text a client may read. Values go to the log only.
func (k Kind) Public() string {
	switch k {
	case KindMalformed:
		return "malformed token"
	case KindWrongType, KindBadClaims:
		return "wrong token type"
	case KindWrongIssuer:
		return "wrong issuer"
	case KindWrongAudience:
		return "wrong audience"
	case KindExpired:
		return "expired"
	case KindNotYetValid:
		return "not yet valid"
	default:
		return "unverifiable token"
	}
}

// String names the kind for logs and metrics.
func (k Kind) String() string {
	switch k {
	case KindMalformed:
		return "malformed"
	case KindUnverifiable:
		return "unverifiable"
	case KindUnknownKey:
		return "unknown_key"
	case KindWrongType:
		return "wrong_type"
	case KindWrongIssuer:
		return "wrong_issuer"
	case KindWrongAudience:
		return "wrong_audience"
	case KindExpired:
		return "expired"
	case KindNotYetValid:
		return "not_yet_valid"
	case KindBadClaims:
		return "bad_claims"
	default:
		return "internal"
	}
}

// Refusal is why a token was refused. Reason is private: it holds values of the
// token, quoted and cut, and is for the operator's log.
type Refusal struct {
	Kind   Kind
	Check  string // name of the check that refused, as in docs/tokens.md
	Reason string
	KeyID  string // the key that is missing, with KindUnknownKey alone
}

// Error returns the private text, for logs.
func (r *Refusal) Error() string {
	return "token refused: " + r.Kind.String() + ": " + r.Check + ": " + r.Reason
}
