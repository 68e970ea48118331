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
// "gatehouse check --token-stdin". Until the signature holds it stops at the
// first failure; after it every check is run, so that an expired token's other
// faults show too. Verify accepts a token exactly when every step is ok.
func (v *Verifier) Explain(raw string, audiences []string, keys *KeySet, now time.Time) []Step {
	j := newJudgement(v, raw, audiences, keys, now)
	steps := make([]Step, 0, len(checks))
	stopped := false
	for i := range checks {
		c := &checks[i]
		if stopped {
			steps = append(steps, Step{Name: c.name, Outcome: OutcomeNotReached})
			continue
		}
		step := Step{Name: c.name, Outcome: OutcomeOK}
		if r := c.verdict(j); r != nil {
			step.Outcome, step.Detail, step.Kind = OutcomeFailed, r.Reason, r.Kind
			stopped = c.gate
		} else if c.shown != nil {
			step.Detail = c.shown(j)
		}
		steps = append(steps, step)
	}
	return steps
}
