package token

import "time"

// Outcome is how one check of [Verifier.Explain] ended.
type Outcome string

// The outcomes.
const (
	OutcomeOK         Outcome = "ok"
	OutcomeFailed     Outcome = "failed"
	OutcomeNotReached Outcome = "not reached"
)

// Step is one check as [Verifier.Explain] tells it.
type Step struct {
	Name    string // as in docs/tokens.md
	Outcome Outcome
	Detail  string // what was seen and wanted; never the signature
	Kind    Kind   // set when failed
}

// Explain runs the checks of [Verifier.Verify] and tells each one's outcome, for
// "gatehouse check --token-stdin". Before the signature holds it stops at the
// first failure; after it every check is run, so that an expired token's other
// faults show too.
func (v *Verifier) Explain(raw string, audiences []string, keys *KeySet, now time.Time) []Step {
	return nil
}
