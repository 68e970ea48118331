package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/cmd/internal/plan"
)

// TestMain makes this binary every program of the tests: under the name
// gatehouse it is the program itself, under the others it is what the program
// meets.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "gatehouse":
		os.Exit(run(os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr, os.Environ()}))
	case "gatehouse-monitor":
		os.Exit(standInMonitor())
	case "gatehouse-worker":
		if slices.Contains(os.Args, "--check") {
			os.Exit(standInCheck())
		}
		fmt.Println(`{"toolsets":[{"name":"session","options":[]},{"name":"testing","options":[{"name":"timeout"}]}]}`)
		os.Exit(0)
	case "gatehouse-keykeeper":
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// standInCheck takes durations alone for the one option that there is.
func standInCheck() int {
	var given map[string]map[string]any
	if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil {
		fmt.Fprintln(os.Stderr, "gatehouse-worker: no options:", err)
		return 2
	}
	if v, ok := given["testing"]["timeout"]; ok && v != "5m" {
		fmt.Fprintf(os.Stderr, "gatehouse-worker: option \"timeout\" must not be %v\n", v)
		return 2
	}
	return 0
}

// handedOver is what the stand-in for the monitor finds.
type handedOver struct {
	Plan      plan.Plan
	Sealed    bool
	Listeners []string
	Operators string   // where the operators' socket lies
	Open      []string // descriptors beyond the expected ones that exec has let through
	Environ   []string
	Args      []string
	PID       int
	Hangup    bool // SIGHUP is ignored
}

// standInMonitor reports what a monitor would get.
func standInMonitor() int {
	out := handedOver{Environ: os.Environ(), Args: os.Args, PID: os.Getpid(), Hangup: signal.Ignored(syscall.SIGHUP)}
	doc, err := io.ReadAll(os.NewFile(firstFD, "plan"))
	if err != nil || json.Unmarshal(doc, &out.Plan) != nil {
		fmt.Fprintln(os.Stderr, "no plan", err)
		return 1
	}
	const all = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	seals, err := unix.FcntlInt(firstFD, unix.F_GET_SEALS, 0)
	out.Sealed = err == nil && seals&all == all
	for i := range out.Plan.Monitor.Listeners {
		ln, err := net.FileListener(os.NewFile(uintptr(firstFD+1+i), "listener"))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		out.Listeners = append(out.Listeners, ln.Addr().String())
	}
	next := firstFD + 1 + out.Plan.Monitor.Listeners
	if out.Plan.Monitor.Operators {
		ln, err := net.FileListener(os.NewFile(uintptr(next), "operators"))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		out.Operators = ln.Addr().String()
		next++
	}
	for fd := next; fd < 64; fd++ {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			link, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
			out.Open = append(out.Open, fmt.Sprintf("%d %s", fd, link))
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		return 1
	}
	return 0
}

// world is a folder with the programs, and an account without privilege.
type world struct{ bin, dir string }

// newWorld installs this test binary under every name.
func newWorld(t *testing.T) world {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	w := world{bin: filepath.Join(dir, "bin"), dir: filepath.Join(dir, "home")}
	for _, d := range []string{w.bin, w.dir} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []string{"gatehouse", "gatehouse-monitor", "gatehouse-worker", "gatehouse-keykeeper"} {
		if err := install(self, filepath.Join(w.bin, p)); err != nil {
			t.Fatal(err)
		}
	}
	if os.Geteuid() == 0 { // the tests are about an ordinary user
		for _, d := range []string{filepath.Dir(dir), dir} {
			if err := os.Chmod(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chown(w.dir, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// install links the program, or copies it to another file system.
func install(from, to string) error {
	if os.Link(from, to) == nil {
		return os.Chmod(to, 0o755)
	}
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o755)
}

const nobody = 65534

// write puts a file into the world, owned by the account that uses it.
func (w world) write(t *testing.T, name, content string) string {
	t.Helper()
	file := filepath.Join(w.dir, name)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(file, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	return file
}

// gatehouse runs the program with exactly this environment.
func (w world) gatehouse(t *testing.T, stdin string, env []string, args ...string) (code int, out, complaint string) {
	t.Helper()
	cmd := exec.Command(filepath.Join(w.bin, "gatehouse"), args...)
	cmd.Dir, cmd.Env = w.dir, append([]string{"HOME=" + w.dir, "PATH=/usr/bin:/bin"}, env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	leak, err := os.Open(os.DevNull) // what a careless parent leaves open
	if err != nil {
		t.Fatal(err)
	}
	defer leak.Close()
	cmd.ExtraFiles = []*os.File{leak, leak, leak, leak, leak, leak}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	cmd.WaitDelay = 30 * time.Second
	timer := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	if err := cmd.Run(); err != nil {
		if _, ok := errors.AsType[*exec.ExitError](err); !ok {
			t.Fatal(err)
		}
	}
	return cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

func TestServeHandsOver(t *testing.T) {
	w := newWorld(t)
	code, out, complaint := w.gatehouse(t, "", []string{"MCP_MODE=loopback", "MCP_PORT=0", "AWS_SECRET_ACCESS_KEY=canary", "MCP_TITLE=Tools", "TZ=UTC"}, "serve")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, complaint)
	}
	var got handedOver
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if !got.Sealed {
		t.Error("the plan can still be changed")
	}
	if !got.Hangup {
		t.Error("a SIGHUP that comes before the monitor can take it ends it")
	}
	if len(got.Open) > 0 {
		t.Errorf("descriptors have leaked: %q", got.Open)
	}
	if len(got.Listeners) == 0 || len(got.Listeners) != got.Plan.Monitor.Listeners {
		t.Fatalf("listeners %v, the plan says %d", got.Listeners, got.Plan.Monitor.Listeners)
	}
	_, port, err := net.SplitHostPort(got.Listeners[0])
	if err != nil || port == "0" {
		t.Fatalf("listener %q", got.Listeners[0])
	}
	for _, ln := range got.Listeners {
		host, p, err := net.SplitHostPort(ln)
		if err != nil || p != port || host != "127.0.0.1" && host != "::1" {
			t.Errorf("listens on %s, want port %s on loopback", ln, port)
		}
		if url := "http://" + ln + "/mcp"; !strings.Contains(complaint, url) {
			t.Errorf("%s is not announced:\n%s", url, complaint)
		}
	}
	var front plan.Front
	if err := json.Unmarshal(got.Plan.Front, &front); err != nil || !slices.Equal(front.Listeners, got.Listeners) || front.Auth {
		t.Errorf("the front end's part: %v %+v", err, front)
	}
	if want := []string{"MCP_PORT=" + port, "PATH=/usr/bin:/bin", "HOME=" + w.dir, "TZ=UTC"}; !slices.Equal(got.Environ, want) {
		t.Errorf("environment %q, want %q", got.Environ, want)
	}
	if want := filepath.Join(w.bin, "gatehouse-monitor"); len(got.Args) != 1 || got.Args[0] != want {
		t.Errorf("arguments %q, want %q", got.Args, want)
	}
}

// TestServeWithoutCode: built-in tools that would have nothing to work on are told of at
// the start, and not by each call alone.
func TestServeWithoutCode(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		env  string
		says string // nothing: no warning
	}{
		{"MCP_TITLE=", "warning: worker of /mcp: no workspace is configured"},
		{"MCP_WORKSPACE=" + filepath.Join(w.dir, "nowhere"), "warning: worker of /mcp: there is no repository " + w.dir},
		{"MCP_WORKSPACE=" + w.dir, ""},
		{"MCP_TOOLSETS=session", ""},
		{`MCP_WORKER_COMMAND=["/bin/cat"]`, ""},
	} {
		code, _, complaint := w.gatehouse(t, "", []string{"MCP_MODE=loopback", "MCP_PORT=0", c.env}, "serve")
		if code != 0 || !strings.Contains(complaint, c.says) || (c.says == "") == strings.Contains(complaint, "warning: worker") {
			t.Errorf("%s: exit code %d\n%s", c.env, code, complaint)
		}
	}
}

// TestFrontWithoutAMonitor: it says so where its log is, on stdout.
// TestServeLeavesNoSocket: when there is no monitor to hand it to.
func TestServeLeavesNoSocket(t *testing.T) {
	w := newWorld(t)
	if err := os.Remove(filepath.Join(w.bin, "gatehouse-monitor")); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(w.dir, "op.sock")
	code, _, complaint := w.gatehouse(t, "", []string{"MCP_MODE=loopback", "MCP_PORT=0", "MCP_OPERATORS_SOCKET=" + socket}, "serve")
	if code != exitFailed || !strings.Contains(complaint, "gatehouse-monitor") {
		t.Errorf("exit code %d:\n%s", code, complaint)
	}
	if _, err := os.Lstat(socket); err == nil {
		t.Error("the operators' socket was left behind")
	}
}

func TestFrontWithoutAMonitor(t *testing.T) {
	code, log, complaint := newWorld(t).gatehouse(t, "", nil, "front")
	if code != exitFailed || complaint != "" || !strings.Contains(log, "read the plan") {
		t.Errorf("exit code %d, want %d; log %q, complaint %q", code, exitFailed, log, complaint)
	}
}

func TestServeRefuses(t *testing.T) {
	w := newWorld(t)
	blocked, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer blocked.Close()
	_, port, _ := net.SplitHostPort(blocked.Addr().String())
	for _, c := range []struct {
		name string
		env  []string
		args []string
		code int
		want []string
	}{
		{"no mode", nil, []string{"serve"}, exitFailed, []string{"loopback", "authenticated"}},
		{"no command", nil, nil, exitUsage, []string{"serve", "check"}},
		{"unknown flag", nil, []string{"serve", "--prot=1"}, exitUsage, []string{"--prot", "--port"}},
		{"open loopback", []string{"MCP_BIND_ADDRESS=0.0.0.0"}, []string{"serve", "--mode=loopback"}, exitFailed, []string{"0.0.0.0", "loopback"}},
		{"empty issuer", []string{"MCP_MODE=authenticated", "MCP_RUN_AS=shared-account"}, []string{"serve", "--issuer="}, exitFailed, []string{"--issuer", "MCP_AUDIENCE", "MCP_TLS_CERT"}},
		{"all at once", []string{"MCP_PORT=x", "MCP_IDLE_TIMEOUT=soon"}, []string{"serve", "--mode=loopback"}, exitFailed, []string{"MCP_PORT", "MCP_IDLE_TIMEOUT"}},
		{"port in use", []string{"MCP_PORT=" + port}, []string{"serve", "--mode=loopback"}, exitFailed, []string{"127.0.0.1:" + port, "in use"}},
		{"unknown toolset", []string{"MCP_TOOLSETS=session,tests"}, []string{"serve", "--mode=loopback"}, exitFailed, []string{"MCP_TOOLSETS", `"tests"`, "session, testing"}},
		{"unknown option", []string{`MCP_TOOLSET_OPTIONS={"testing":{"timout":"5m"}}`}, []string{"serve", "--mode=loopback"}, exitFailed, []string{`"timout"`, "accepted: timeout"}},
		{"options of a toolset without any", []string{`MCP_TOOLSET_OPTIONS={"session":{"a":1}}`}, []string{"serve", "--mode=loopback"}, exitFailed, []string{`"session"`, "it has none"}},
		{"option of the wrong type", []string{`MCP_TOOLSET_OPTIONS={"testing":{"timeout":true}}`}, []string{"serve", "--mode=loopback"}, exitFailed, []string{"MCP_TOOLSET_OPTIONS", `option "timeout" must not be true`}},
		{"options of an unknown toolset", []string{`MCP_TOOLSET_OPTIONS={"tests":{}}`}, []string{"serve", "--mode=loopback"}, exitFailed, []string{`"tests"`, "session, testing"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, complaint := w.gatehouse(t, "", c.env, c.args...)
			if code != c.code || out != "" {
				t.Errorf("exit code %d, want %d; output %q", code, c.code, out)
			}
			for _, want := range c.want {
				if !strings.Contains(complaint, want) {
					t.Errorf("%q is missing in:\n%s", want, complaint)
				}
			}
		})
	}
}

func TestToolsetsOfTheWorkerAreAccepted(t *testing.T) {
	w := newWorld(t)
	code, _, complaint := w.gatehouse(t, "", []string{"MCP_MODE=loopback", "MCP_PORT=0", "MCP_TOOLSETS=testing", `MCP_TOOLSET_OPTIONS={"testing":{"timeout":"5m"}}`}, "serve")
	if code != 0 {
		t.Errorf("exit code %d: %s", code, complaint)
	}
}

// TestVersion: the command, and the flag that most people try first.
func TestVersion(t *testing.T) {
	for _, arg := range []string{"version", "--version"} {
		var out bytes.Buffer
		if code := run([]string{arg}, streams{out: &out, err: io.Discard}); code != 0 || !strings.HasPrefix(out.String(), "gatehouse ") {
			t.Errorf("gatehouse %s: exit code %d, %q", arg, code, out.String())
		}
	}
}

func TestHelpHasExamplesAndEveryFlag(t *testing.T) {
	var out bytes.Buffer
	if code := run([]string{"serve", "--help"}, streams{out: &out, err: io.Discard}); code != 0 {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{"Examples:", "--config=FILE", "--port=N", "MCP_PORT", "--[no-]trace", "--mode=loopback|authenticated"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, out.String())
		}
	}
}
