package toolsettest

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"gatehouse/toolsets/program"
	"gatehouse/toolsets/run"
)

// Real returns checked programs of code that nobody here wrote: the given modules,
// which this one depends on anyhow and, when GATEHOUSE_REAL_MODULES names more as
// "path@version path@version", those from the module proxy.
func Real(t testing.TB, modules ...string) map[string]*program.Snapshot {
	t.Helper()
	if testing.Short() || raceDetector {
		t.Skip("looks at whole modules: not with -short or -race")
	}
	names := append(modules, strings.Fields(os.Getenv("GATEHOUSE_REAL_MODULES"))...)
	out := map[string]*program.Snapshot{}
	for _, name := range names {
		snap, err := program.New(ModuleDir(t, name), RealEnv(t)).Load(t.Context(), nil)
		if err == nil {
			err = snap.CheckAll(t.Context(), nil)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out[name] = snap
	}
	return out
}

// RealEnv is GoEnv with the proxy of whoever runs the test.
func RealEnv(t testing.TB) []string {
	out, err := exec.Command("go", "env", "GOPROXY").Output()
	if err != nil {
		t.Fatal(err)
	}
	return run.Env(GoEnv(t), []string{"GOPROXY=" + strings.TrimSpace(string(out))})
}

// ModuleDir is where a module lies in the module cache.
func ModuleDir(t testing.TB, name string) string {
	t.Helper()
	if !strings.Contains(name, "@") {
		out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", name).Output()
		if err != nil {
			t.Fatalf("find %s: %v", name, err)
		}
		return strings.TrimSpace(string(out))
	}
	cmd := exec.Command("go", "mod", "download", "-json", name)
	cmd.Dir = t.TempDir()
	out, err := cmd.Output()
	var m struct{ Dir string }
	if err != nil || json.Unmarshal(out, &m) != nil || m.Dir == "" {
		t.Fatalf("download %s: %v\n%s", name, err, out)
	}
	return m.Dir
}
