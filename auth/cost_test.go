package auth

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"gatehouse/auth/authtest"
	"gatehouse/auth/keys"
	"gatehouse/auth/token"
)

// maxAllocated is what a stranger's request may cost the gate in memory, in bytes.
const maxAllocated = 64 << 10

// TestCostOfHostileTokensAtTheGate bounds what the whole gate spends on tokens that were
// built to cost much. Of one that nothing verifies the gate still looks for iss, to tell
// 401 from 503, and its payload may be anything.
func TestCostOfHostileTokensAtTheGate(t *testing.T) {
	w := newWorld(t, func(c *BearerConfig) { c.MaxTokenBytes = token.MaxBytes })
	w.keys.answer = keys.Absent
	var names, escaped strings.Builder
	for i := range 1500 {
		fmt.Fprintf(&names, `,"%x":1`, i)
	}
	for i := range 700 {
		fmt.Fprintf(&escaped, `,"\u0061%x":1`, i)
	}
	own := `{"iss":"` + authtest.IssuerURL + `"`
	forged, strange := authtest.SignedAs(authtest.NewKey("RS256")), authtest.SignedBy(authtest.NewKey("EdDSA"))
	for payload, text := range map[string]string{
		"many names":         own + names.String() + "}",
		"many escaped names": own + escaped.String() + "}",
		"one name again":     own + strings.Repeat(`,"a":1`, 1800) + "}",
		"iss again":          own + strings.Repeat(`,"iss":1`, 1300) + "}",
		"many short arrays":  own + strings.Repeat(`,"a":[]`, 1500) + "}",
		"nested deep":        own + `,"a":` + strings.Repeat("[", 9000) + "}",
		"a long iss":         `{"iss":"` + strings.Repeat("x", 11000) + `"}`,
	} {
		for _, fault := range []struct {
			name   string
			change authtest.Change
			kind   token.Kind
		}{
			{"bad signature", forged, token.KindUnverifiable},
			{"unknown key", strange, token.KindUnknownKey},
		} {
			t.Run(payload+", "+fault.name, func(t *testing.T) {
				raw := w.issuer.Mint(fault.change, authtest.Payload(text))
				w.want(t, raw, KindToken, fault.kind)
				const runs = 20
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				for range runs {
					w.admit(t, raw)
				}
				runtime.ReadMemStats(&after)
				if got := (after.TotalAlloc - before.TotalAlloc) / runs; got > maxAllocated {
					t.Errorf("%d bytes allocated, at most %d are allowed", got, maxAllocated)
				}
			})
		}
	}
}
