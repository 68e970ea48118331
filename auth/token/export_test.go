package token

import "time"

// What the external tests need of the inside.

// DecodeObject is decodeObject with plain types.
func DecodeObject(b []byte) (map[string][]byte, error) {
	o, err := decodeObject(b)
	if err != nil {
		return nil, err
	}
	out := make(map[string][]byte, len(o))
	for name, raw := range o {
		out[name] = raw
	}
	return out, nil
}

// CheckNames returns the names of the checks in order.
func CheckNames() []string {
	var names []string
	for _, c := range checks {
		names = append(names, c.name)
	}
	return names
}

// VerifyIgnoring is Verify with one check's refusal ignored: for the proof that
// each is needed.
func VerifyIgnoring(name string, v *Verifier, raw string, audiences []string, keys *KeySet, now time.Time) *Refusal {
	j := newJudgement(v, raw, audiences, keys, now)
	for i := range checks {
		if r := checks[i].verdict(j); r != nil && checks[i].name != name {
			return r
		}
	}
	return nil
}

// CheckEdwardsPoint is checkEdwardsPoint.
var CheckEdwardsPoint = checkEdwardsPoint
