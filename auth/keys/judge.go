package keys

import (
	"context"
	"errors"
	"time"

	"gatehouse/auth/printable"
	"gatehouse/auth/token"
)

// Source is where a judgement has the issuers' keys from; *Store is the one there is.
type Source interface {
	// Current returns the usable keys, and a number that changes whenever they do.
	Current() (set *token.KeySet, generation uint64)
	// Lookup asks for newer keys because of a key id that is unknown, and waits
	// for them, AwaitLimit at most.
	Lookup(ctx context.Context, kid string) Answer
	// Ready reports whether the tokens of any issuer can be judged.
	Ready() bool
}

var _ Source = (*Store)(nil)

// Refusal is why a token was not accepted. The zero Refusal refuses as unverifiable.
type Refusal struct {
	// Undecided: for want of keys the token is neither good nor bad. 503 with
	// Retry-After, never 401.
	Undecided bool
	Kind      token.Kind // unless Undecided
	Reason    string     // private, for the log
}

// Judge is the whole verdict on a token, the same for the gate and the monitor: the
// checks of v with the keys of src, for which it waits, AwaitLimit at most, when a key
// that was published a moment ago could change it. It returns the token and the
// generation of the keys that verified it, or a Refusal.
func Judge(ctx context.Context, v *token.Verifier, src Source, raw string, audiences []string, now func() time.Time) (*token.Token, uint64, *Refusal) {
	if !src.Ready() {
		return nil, 0, undecided("no usable keys of any issuer")
	}
	set, generation := src.Current()
	tok, err := v.Verify(raw, audiences, set, now())
	if r := refused(err); r.Kind == token.KindUnknownKey {
		if iss, foreign := v.Foreign(raw); foreign {
			return nil, 0, &Refusal{Kind: token.KindUnverifiable,
				Reason: "the token names the issuer " + printable.Quoted(iss, printable.Value) + ", which is not configured"}
		}
		switch src.Lookup(ctx, r.KeyID) {
		case Known:
			set, generation = src.Current()
			tok, err = v.Verify(raw, audiences, set, now())
		case Absent:
		default:
			return nil, 0, undecided("the issuers could not be asked for the key; " + err.Error())
		}
	}
	if err == nil {
		return tok, generation, nil
	}
	r := refused(err)
	if r.Kind == token.KindUnverifiable && v.Undecidable(raw, set) {
		return nil, 0, undecided("no usable keys of the issuer that the token names; " + err.Error())
	}
	return nil, 0, &Refusal{Kind: r.Kind, Reason: err.Error()}
}

func undecided(reason string) *Refusal { return &Refusal{Undecided: true, Reason: reason} }

// refused is what Verify said, the zero value when it said nothing.
func refused(err error) token.Refusal {
	if r, ok := errors.AsType[*token.Refusal](err); ok {
		return *r
	}
	return token.Refusal{}
}
