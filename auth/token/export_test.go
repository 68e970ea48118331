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

// VerifyWithout is Verify with one check left out: for the proof that each is needed.
func VerifyWithout(name string, v *Verifier, raw string, audiences []string, keys *KeySet, now time.Time) *Refusal {
	j := newJudgement(v, raw, audiences, keys, now)
	for i := range checks {
		if checks[i].name == name {
			continue
		}
		if r := checks[i].verdict(j); r != nil {
			return r
		}
	}
	return nil
}

// SmallOrder exposes the group arithmetic's bounds to tests.
var CheckEdwardsPoint = checkEdwardsPoint
