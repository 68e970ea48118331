package monitor

import (
	"os/exec"
	"testing"
)

func runHelper() (int, bool) { return 0, false }
func removeBuilt()           {}

func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
	return string(out)
}
