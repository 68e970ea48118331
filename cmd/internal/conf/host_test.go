package conf

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io/fs"
	"maps"
	"math/big"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse/session/safepath"
)

// testNow is the clock of every test here.
var testNow = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

// memFile is a file of a memory host.
type memFile struct {
	content string
	mode    fs.FileMode
	unsafe  string // why others could change it
}

// memHost is a machine in memory: files by path, folders above them implied.
type memHost map[string]memFile

// testHost is the machine of the golden tests. who is root, alice or bare-root
// (root without system users and programs).
func testHost(t testing.TB, who string) (Host, memHost) {
	t.Helper()
	files := memHost{
		"/home/alice/bin/tool":  {content: "#!", mode: 0o755},
		"/usr/bin/tool":         {content: "#!", mode: 0o755},
		"/usr/bin/plain":        {content: "text", mode: 0o644},
		"/etc/gw/accounts.yaml": {content: "- {issuer: https://id.example.com, subject: alice, account: alice}\n", mode: 0o600},
		"/etc/gw/jwks.json":     {content: "{}", mode: 0o644},
		"/etc/gw/worker.env":    {content: "API_KEY=s3cret\n", mode: 0o600},
		"/etc/gw/hello.txt":     {content: "Hello.", mode: 0o644},
		"/etc/gw/empty.pem":     {mode: 0o644},
	}
	for name, pem := range testPEMs(t) {
		files["/etc/gw/"+name] = memFile{content: pem, mode: 0o600}
	}
	for _, p := range []string{"gatehouse", "gatehouse-monitor", "gatehouse-keykeeper", "gatehouse-worker"} {
		files["/opt/gw/bin/"+p] = memFile{content: "ELF", mode: 0o755}
	}
	users := map[string][2]int{"root": {0, 0}, "alice": {1000, 1000}, "gatehouse": {101, 101}, "gatehouse-keys": {102, 102}, "gatehouse-worker": {103, 103}, "rooty": {104, 0}}
	h := Host{EUID: 1000, Account: "alice", WorkDir: "/home/alice", BinDir: "/opt/gw/bin", Now: testNow,
		ReadFile: files.read, Stat: files.stat, Trust: files.trust}
	if strings.HasSuffix(who, "root") {
		h.EUID, h.Account, h.WorkDir = 0, "root", "/root"
	}
	if who == "bare-root" {
		maps.DeleteFunc(users, func(n string, _ [2]int) bool { return strings.HasPrefix(n, "gatehouse") })
		maps.DeleteFunc(files, func(n string, _ memFile) bool { return strings.HasPrefix(n, "/opt/gw/bin/") })
	}
	h.LookPath = func(p string) (string, error) {
		if _, err := files.stat("/usr/bin/" + p); err != nil {
			return "", err
		}
		return "/usr/bin/" + p, nil
	}
	h.LookupUser = func(n string) (int, int, error) {
		ids, ok := users[n]
		if !ok {
			return 0, 0, user.UnknownUserError(n)
		}
		return ids[0], ids[1], nil
	}
	return h, files
}

func (m memHost) read(path string) ([]byte, error) {
	f, ok := m[path]
	if ok && f.mode&fs.ModeSymlink != 0 {
		return m.read(m.target(path))
	}
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return []byte(f.content), nil
}

func (m memHost) stat(path string) (FileInfo, error) {
	f, ok := m[path]
	if ok && f.mode&fs.ModeSymlink != 0 {
		return m.stat(m.target(path))
	}
	if ok {
		return FileInfo{Mode: f.mode}, nil
	}
	for p := range m {
		if path == "/" || strings.HasPrefix(p, path+"/") {
			return FileInfo{Mode: fs.ModeDir | 0o755}, nil
		}
	}
	return FileInfo{}, &fs.PathError{Op: "stat", Path: path, Err: fs.ErrNotExist}
}

func (m memHost) target(path string) string {
	target := m[path].content
	if !filepath.IsAbs(target) {
		target = filepath.Join(filepath.Dir(path), target)
	}
	return target
}

// trust knows the files that a case calls unsafe; what makes a file so is
// tested in package safepath. What it is asked is recorded in the answer.
func (m memHost) trust(path string, uid int, folders bool) error {
	if why := m[path].unsafe; why != "" && (folders || !strings.HasPrefix(why, "folder")) {
		return &safepath.Unsafe{Path: path, Why: fmt.Sprintf("%s (asked for uid %d)", why, uid)}
	}
	return nil
}

// apply changes the machine, a line a file: "PATH mode OCTAL", "PATH unsafe
// WHY", "PATH text CONTENT" with \n for a line's end, "PATH link TARGET",
// "PATH gone". A path that ends in a slash is a folder.
func (m memHost) apply(t *testing.T, script string) {
	t.Helper()
	for line := range strings.Lines(script) {
		f := strings.SplitN(strings.TrimSpace(line), " ", 3)
		if len(f) < 2 {
			t.Fatalf("host line %q", line)
		}
		path, isDir := strings.CutSuffix(f[0], "/")
		file, known := m[path]
		if !known {
			file.mode = 0o644
		}
		switch f[1] {
		case "gone":
			delete(m, path)
			continue
		case "mode":
			n, err := strconv.ParseUint(f[2], 8, 12)
			if err != nil {
				t.Fatalf("host line %q: %v", line, err)
			}
			file.mode = fs.FileMode(n)
			if isDir {
				file.mode |= fs.ModeDir
			}
		case "unsafe":
			file.unsafe = f[2]
		case "text":
			file.content = strings.NewReplacer(`\n`, "\n", `\r`, "\r").Replace(f[2])
		case "link":
			file.mode, file.content = fs.ModeSymlink|0o777, f[2]
		default:
			t.Fatalf("host line %q", line)
		}
		m[path] = file
	}
}

// testPEMs makes the certificates of the tests: server.pem with server.key,
// old.pem (expired), soon.pem, early.pem, other.key, ca.pem.
var testPEMs = func() func(testing.TB) map[string]string {
	var once sync.Once
	var made map[string]string
	return func(t testing.TB) map[string]string {
		once.Do(func() { made = makePEMs(t) })
		return made
	}
}()

func makePEMs(t testing.TB) map[string]string {
	t.Helper()
	out := map[string]string{}
	keyFor := func(name string) *ecdsa.PrivateKey {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
		return key
	}
	key := keyFor("server.key")
	keyFor("other.key")
	for name, dates := range map[string][2]time.Time{
		"server.pem": {testNow.AddDate(0, -1, 0), testNow.AddDate(1, 0, 0)},
		"old.pem":    {testNow.AddDate(-2, 0, 0), testNow.AddDate(-1, 0, 0)},
		"soon.pem":   {testNow.AddDate(-1, 0, 0), testNow.AddDate(0, 0, 3)},
		"early.pem":  {testNow.AddDate(0, 1, 0), testNow.AddDate(1, 0, 0)},
		"ca.pem":     {testNow.AddDate(0, -1, 0), testNow.AddDate(1, 0, 0)},
	} {
		c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
			NotBefore: dates[0], NotAfter: dates[1], DNSNames: []string{"mcp.example.com", "localhost"}}
		der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	return out
}

// loadCase loads what one golden case gives.
func loadCase(t *testing.T, who, hostScript, yaml, env, flags string) (*Config, []string, error) {
	t.Helper()
	h, files := testHost(t, who)
	in := Input{Flags: map[string]string{}, Environ: []string{"HOME=/home/alice", "PATH=/usr/bin"}}
	if yaml != "" {
		files["/etc/gw/gatehouse.yaml"] = memFile{content: yaml, mode: 0o644}
		in.File = "gatehouse.yaml"
		h.WorkDir = "/etc/gw"
	}
	files.apply(t, hostScript)
	for line := range strings.Lines(env) {
		in.Environ = append(in.Environ, strings.TrimSuffix(line, "\n"))
	}
	for line := range strings.Lines(flags) {
		n, v, ok := strings.Cut(strings.TrimPrefix(strings.TrimSuffix(line, "\n"), "--"), "=")
		if !ok {
			t.Fatalf("flag line %q", line)
		}
		in.Flags[n] = v
	}
	return Load(in, h)
}
