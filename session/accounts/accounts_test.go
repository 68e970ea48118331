package accounts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// world is an /etc of our own with one good account in it.
type world struct {
	t      *testing.T
	etc    string
	home   string
	uid    int
	policy Policy
	passwd []string
	group  []string
	shadow []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, etc: t.TempDir(), home: filepath.Join(t.TempDir(), "alice"), uid: os.Getuid()}
	if w.uid == 0 {
		w.uid = 1501
	}
	if w.uid < 1000 || w.uid > 60000 {
		t.Skipf("SKIPPED: uid %d is outside of the range for people", w.uid)
	}
	if err := os.Mkdir(w.home, 0o700); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(w.home, w.uid, w.uid); err != nil {
			t.Fatal(err)
		}
	}
	w.policy = Policy{MinUID: 1000, MaxUID: 60000, DeniedGroups: []string{"root", "sudo", "docker", "absent"}, ShadowLock: "refuse"}
	w.passwd = []string{"root:x:0:0:root:/root:/bin/bash", fmt.Sprintf("alice:x:%d:1500:Alice:%s:/bin/sh", w.uid, w.home)}
	w.group = []string{"root:x:0:", "sudo:x:27:", "docker:x:998:", "people:x:1600:alice,bob", "alice:x:1500:", "team:x:1550:bob,alice"}
	w.shadow = []string{"root:*:1::::::", "alice:*:19000:0:99999:7:::"}
	return w
}

func (w *world) dir() *Directory {
	w.t.Helper()
	for name, lines := range map[string][]string{"passwd": w.passwd, "group": w.group, "shadow": w.shadow} {
		if err := os.WriteFile(filepath.Join(w.etc, name), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
	return &Directory{Etc: w.etc}
}

// replace changes the lines of alice.
func replace(lines []string, old, text string) {
	for i := range lines {
		if strings.HasPrefix(lines[i], "alice:") {
			lines[i] = strings.Replace(lines[i], old, text, 1)
		}
	}
}

func TestGoodAccount(t *testing.T) {
	w := newWorld(t)
	a, err := w.dir().ForToken(t.Context(), "alice", w.policy)
	if err != nil {
		t.Fatal(err)
	}
	if a.Name != "alice" || int(a.UID) != w.uid || a.GID != 1500 || a.Home != w.home || a.Shell != "/bin/sh" {
		t.Errorf("got %+v", a)
	}
	if !slices.Equal(a.Groups, []uint32{1500, 1550, 1600}) {
		t.Errorf("groups %v, want her own first, then the others in order", a.Groups)
	}
}

// TestRules changes one thing about a good account and names the check that must
// refuse it; "" means that it is still good.
func TestRules(t *testing.T) {
	tests := []struct {
		name   string
		change func(w *world)
		check  string
	}{
		{"no such account", func(w *world) { w.passwd = w.passwd[:1] }, "lookup"},
		{"uid 0", func(w *world) { replace(w.passwd, fmt.Sprint(w.uid), "0") }, "round_trip"},
		{"uid 0 under the first name", func(w *world) {
			replace(w.passwd, fmt.Sprint(w.uid), "0")
			slices.Reverse(w.passwd)
		}, "root"},
		{"uid 999", func(w *world) { replace(w.passwd, fmt.Sprint(w.uid), "999") }, "uid_range"},
		{"uid 60001", func(w *world) { replace(w.passwd, fmt.Sprint(w.uid), "60001") }, "uid_range"},
		{"uid 65534", func(w *world) { replace(w.passwd, fmt.Sprint(w.uid), "65534") }, "root"},
		{"uid 4294967295", func(w *world) { replace(w.passwd, fmt.Sprint(w.uid), "4294967295") }, "root"},
		{"uid beyond 32 bits", func(w *world) { replace(w.passwd, fmt.Sprint(w.uid), "4294968796") }, "lookup"},
		{"uid +0", func(w *world) { replace(w.passwd, fmt.Sprint(w.uid), "+0") }, "lookup"},
		{"uid 00", func(w *world) { replace(w.passwd, fmt.Sprint(w.uid), "00") }, "lookup"},
		{"uid of another name", func(w *world) {
			w.passwd = slices.Insert(w.passwd, 1, fmt.Sprintf("bob:x:%d:1502::/home/bob:/bin/sh", w.uid))
		}, "round_trip"},
		{"gid 0", func(w *world) { replace(w.passwd, ":1500:", ":0:") }, "root"},
		{"gid 100", func(w *world) { replace(w.passwd, ":1500:", ":100:") }, "gid_range"},
		{"gid 65534", func(w *world) { replace(w.passwd, ":1500:", ":65534:") }, "root"},
		{"member of group 0", func(w *world) { w.group[0] = "root:x:0:alice" }, "root"},
		{"member of a denied group", func(w *world) { w.group[2] = "docker:x:998:bob,alice" }, "denied_group"},
		{"denied group by another name", func(w *world) { w.group = append(w.group, "wharf:x:998:alice") }, "denied_group"},
		{"own group is denied", func(w *world) { w.policy.DeniedGroups = []string{"alice"} }, "denied_group"},
		{"similar name in a denied group", func(w *world) { w.group[2] = "docker:x:998:malice,alice2" }, ""},
		{"denied by name", func(w *world) { w.policy.DenyUsers = []string{"alice"} }, "deny_users"},
		{"required group", func(w *world) { w.policy.RequireGroup = "team" }, ""},
		{"required group is her own", func(w *world) { w.policy.RequireGroup = "alice" }, ""},
		{"not in the required group", func(w *world) { w.policy.RequireGroup = "sudo" }, "required_group"},
		{"required group does not exist", func(w *world) { w.policy.RequireGroup = "nobody-has-it" }, "required_group"},
		{"policy without a range", func(w *world) { w.policy = Policy{} }, "uid_range"},
		{"policy without a word on locks", func(w *world) { w.policy.ShadowLock = "" }, "locked"},
		{"bare ! as useradd writes it", func(w *world) { replace(w.shadow, "*", "!") }, ""},
		{"bare !!", func(w *world) { replace(w.shadow, "*", "!!") }, ""},
		{"password", func(w *world) { replace(w.shadow, "*", "$y$j9T$abc$def") }, ""},
		{"locked password", func(w *world) { replace(w.shadow, "*", "!$y$j9T$abc$def") }, "locked"},
		{"locked account without a password", func(w *world) { replace(w.shadow, "*", "!*") }, "locked"},
		{"lock ignored", func(w *world) {
			replace(w.shadow, "*", "!$y$j9T$abc$def")
			w.policy.ShadowLock = "ignore"
		}, ""},
		{"lock in passwd", func(w *world) { replace(w.passwd, ":x:", ":!*:") }, "locked"},
		{"no shadow entry", func(w *world) { w.shadow = w.shadow[:1] }, "locked"},
		{"expired long ago", func(w *world) { replace(w.shadow, ":7:::", ":7::1:") }, "expired"},
		{"expired by 0", func(w *world) { replace(w.shadow, ":7:::", ":7::0:") }, "expired"},
		{"expires in 2100", func(w *world) { replace(w.shadow, ":7:::", ":7::47500:") }, ""},
		{"expiry not readable", func(w *world) { replace(w.shadow, ":7:::", ":7::soon:") }, "expired"},
		{"nologin shell", func(w *world) { replace(w.passwd, "/bin/sh", "/usr/sbin/nologin") }, "shell"},
		{"shell false", func(w *world) { replace(w.passwd, "/bin/sh", "/bin/false") }, "shell"},
		{"nologin allowed", func(w *world) {
			replace(w.passwd, "/bin/sh", "/usr/sbin/nologin")
			w.policy.AllowNologin = true
		}, ""},
		{"shell missing", func(w *world) { replace(w.passwd, "/bin/sh", "/bin/no-such-shell") }, "shell"},
		{"shell not executable", func(w *world) { replace(w.passwd, "/bin/sh", "/etc/passwd") }, "shell"},
		{"shell is a folder", func(w *world) { replace(w.passwd, "/bin/sh", "/bin") }, "shell"},
		{"shell relative", func(w *world) { replace(w.passwd, "/bin/sh", "accounts_test.go") }, "shell"},
		{"no shell means /bin/sh", func(w *world) { replace(w.passwd, "/bin/sh", "") }, ""},
		{"logins closed", func(w *world) { os.WriteFile(filepath.Join(w.etc, "nologin"), nil, 0o644) }, "nologin"},
		{"home missing", func(w *world) { os.Remove(w.home) }, "home"},
		{"home is a file", func(w *world) { os.Remove(w.home); os.WriteFile(w.home, nil, 0o600) }, "home"},
		{"no home", func(w *world) { replace(w.passwd, w.home, "") }, "home"},
		{"home relative", func(w *world) { replace(w.passwd, w.home, ".") }, "home"},
		{"home of somebody else", func(w *world) { replace(w.passwd, w.home, "/usr") }, "home"},
		{"home that everybody may write", func(w *world) { os.Chmod(w.home, 0o757) }, "home"},
		{"home that the group may write", func(w *world) { os.Chmod(w.home, 0o770) }, "home"},
		{"home that others may read", func(w *world) { os.Chmod(w.home, 0o755) }, ""},
		{"open home allowed", func(w *world) { os.Chmod(w.home, 0o777); w.policy.AllowOpenHome = true }, ""},
		{"broken lines are no entries", func(w *world) {
			w.passwd = slices.Insert(w.passwd, 0, "alice:x:0:0:short", "", "::::::", "alice:x:zero:0::/:/bin/sh")
		}, ""},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			c.change(w)
			_, err := w.dir().ForToken(t.Context(), "alice", w.policy)
			var r *Refusal
			switch {
			case c.check == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.check != "" && (!errors.As(err, &r) || r.Check != c.check):
				t.Errorf("got %v, want a refusal by %s", err, c.check)
			}
		})
	}
}

// TestExpiryOnTheDay: an account is disabled on its day, not after it.
func TestExpiryOnTheDay(t *testing.T) {
	w := newWorld(t)
	replace(w.shadow, ":7:::", ":7::20000:")
	d := w.dir()
	for day, want := range map[int64]bool{19999: true, 20000: false, 20001: false} {
		d.Now = func() time.Time { return time.Unix(day*86400+1, 0) }
		if _, err := d.ForToken(t.Context(), "alice", w.policy); (err == nil) != want {
			t.Errorf("day %d: %v", day, err)
		}
	}
}

// hostile are names that must never be looked up.
var hostile = []string{
	"", " ", ".", "..", "/", "-", "-x", "-root", "--", "0", "00", "+0", "-0", "0x0", "1500", "1e3", "root ", " root", "root\n", "root\x00x",
	"root:", "a:b", "a,b", "a b", "a\tb", "a/b", "../etc", "a\\b", "DOM\\x", "a@b", "a@b@c", "$HOME", "${x}", "%s", "a%n", "$(id)", "`id`", "a;b",
	"a|b", "a&b", "a*", "a?", "[a]", "{a}", "~", "~root", "#a", "a'", `a"`, "A", "Root", "ROOT", "aLice", "rооt", "аlice", "ａlice", "ⓡoot", "ro\u200bot",
	"al\u0131ce", "\u212Aelvin", "ali\u0301ce", "\ufeffalice", "alice\u0000", "\xff", "alice\xff", "é", "null", "undefined\n", "a.b", "a+b", "a=b", "alice$",
	strings.Repeat("a", 32), strings.Repeat("a", 10000), "1a", "9", "\u0661\u0662", "a\r", "a\x7f", "a\u202eb", "Ｒoot", "<a>", "a!", "()", "NaN", "true\t",
}

// TestHostileNamesAreNeverLookedUp: the account database is not opened at all, and
// no getent runs.
func TestHostileNamesAreNeverLookedUp(t *testing.T) {
	w := newWorld(t)
	asked := 0
	d := &Directory{Etc: filepath.Join(w.etc, "does-not-exist"), Getent: func(context.Context, ...string) ([]byte, error) {
		asked++
		return nil, errors.New("asked")
	}}
	for _, name := range hostile {
		if name == "null" {
			continue // a fine name
		}
		if ValidName(name) {
			t.Errorf("%q has the form of an account name", name)
		}
		_, err := d.ForToken(t.Context(), typed(name), w.policy)
		var r *Refusal
		if !errors.As(err, &r) || r.Check != "grammar" {
			t.Errorf("%q: %v, want a refusal by the grammar", name, err)
		}
		if strings.ContainsAny(fmt.Sprint(err), "\n\x00\r\u202e") {
			t.Errorf("%q is not escaped in %q", name, err)
		}
	}
	if asked != 0 {
		t.Errorf("getent was asked %d times", asked)
	}
	for _, name := range []string{"a", "_", "alice", "a1", "a-", "a_b-c9", strings.Repeat("a", 31), "null"} {
		if !ValidName(name) {
			t.Errorf("%q does not have the form of an account name", name)
		}
	}
}

// TestGroupsAreReadAnew: who left a group has left it at the next question.
func TestGroupsAreReadAnew(t *testing.T) {
	w := newWorld(t)
	d := w.dir()
	before, err := d.ForToken(t.Context(), "alice", w.policy)
	if err != nil {
		t.Fatal(err)
	}
	w.group[3] = "people:x:1600:bob"
	w.dir()
	after, err := d.ForToken(t.Context(), "alice", w.policy)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(before.Groups, 1600) || slices.Contains(after.Groups, 1600) {
		t.Errorf("groups %v, then %v", before.Groups, after.Groups)
	}
}

func TestWorkerAndSystemAccounts(t *testing.T) {
	w := newWorld(t)
	w.passwd = append(w.passwd,
		"gatehouse-worker:x:990:990::/nonexistent:/usr/sbin/nologin", "in-docker:x:991:998::/nonexistent:/usr/sbin/nologin",
		"toor:x:0:0::/root:/bin/sh", "rootgroup:x:992:0::/:/bin/sh", "nobody:x:65534:65534::/:/bin/sh", "has:x:993:993::/:/bin/sh")
	w.group = append(w.group, "extra:x:40:gatehouse-worker", "wheel:x:0:has")
	d := w.dir()
	a, err := d.ForWorkers(t.Context(), "gatehouse-worker", w.policy)
	if err != nil || a.UID != 990 || !slices.Equal(a.Groups, []uint32{990, 40}) {
		t.Errorf("worker account: %+v, %v", a, err)
	}
	a, err = d.System(t.Context(), "gatehouse-worker")
	if err != nil || a.Groups != nil {
		t.Errorf("system account: %+v, %v; want it without groups", a, err)
	}
	for _, name := range []string{"root", "toor", "rootgroup", "nobody", "has", "absent", "in-docker"} {
		if _, err := d.ForWorkers(t.Context(), typed(name), w.policy); !IsRefusal(err) {
			t.Errorf("worker account %s: %v, want a refusal", name, err)
		}
		if _, err := d.System(t.Context(), typed(name)); !IsRefusal(err) && name != "in-docker" {
			t.Errorf("system account %s: %v, want a refusal", name, err)
		}
	}
}

func TestSelf(t *testing.T) {
	w := newWorld(t)
	d := w.dir()
	a, err := d.Self(t.Context(), uint32(w.uid), 7)
	if err != nil || a.Name != "alice" || a.GID != 7 || a.Groups != nil {
		t.Errorf("own account: %+v, %v", a, err)
	}
	a, err = d.Self(t.Context(), 4242, 4242)
	if err != nil || a.Name != "uid-4242" || a.Home != "/" {
		t.Errorf("account without an entry: %+v, %v", a, err)
	}
	if _, err := d.Self(t.Context(), 0, 0); !IsRefusal(err) {
		t.Errorf("root as own account: %v", err)
	}
}

func TestDirectoryService(t *testing.T) {
	const passwd, groups = "passwd", "initgroups"
	type key [2]string
	for name, c := range map[string]struct {
		nsswitch string
		answers  map[key]string
		err      error
		want     []uint32 // nil: refused or failed
		asked    bool
	}{
		"local account, files only": {nsswitch: "passwd: files\ngroup: files\n", want: []uint32{1500, 1550, 1600}},
		"local account, systemd beside files": {nsswitch: "passwd: files systemd\ngroup: files [SUCCESS=merge] systemd\n",
			want: []uint32{1500, 1550, 1600}},
		"local account with groups elsewhere": {nsswitch: "passwd: files sss\ngroup: files sss # both\n",
			answers: map[key]string{{groups, "alice"}: "alice                 1550 1700\n"},
			want:    []uint32{1500, 1550, 1600, 1700}, asked: true},
		"service refuses to answer": {nsswitch: "passwd: files sss\ngroup: files sss\n", err: errors.New("down"), asked: true},
		"answer about somebody else": {nsswitch: "passwd: files sss\ngroup: files sss\n",
			answers: map[key]string{{groups, "alice"}: "bob 1700\n"}, asked: true},
		"answer that is no number": {nsswitch: "passwd: files sss\ngroup: files sss\n",
			answers: map[key]string{{groups, "alice"}: "alice 0x1\n"}, asked: true},
		"denied group elsewhere": {nsswitch: "passwd: files sss\ngroup: files sss\n",
			answers: map[key]string{{groups, "alice"}: "alice 998\n"}, asked: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			d := w.dir()
			if err := os.WriteFile(filepath.Join(w.etc, "nsswitch.conf"), []byte(c.nsswitch), 0o644); err != nil {
				t.Fatal(err)
			}
			asked := false
			d.Getent = func(ctx context.Context, args ...string) ([]byte, error) {
				asked = true
				if _, bounded := ctx.Deadline(); !bounded || len(args) != 3 || args[1] != "--" {
					t.Errorf("getent %v, bounded %v", args, bounded)
				}
				if c.err != nil {
					return nil, c.err
				}
				if out, ok := c.answers[key{args[0], args[2]}]; ok {
					return []byte(out), nil
				}
				return nil, ErrNotFound
			}
			a, err := d.ForToken(t.Context(), "alice", w.policy)
			if (c.want == nil) != (err != nil) || !slices.Equal(a.Groups, c.want) {
				t.Errorf("groups %v, %v; want %v", a.Groups, err, c.want)
			}
			if asked != c.asked {
				t.Errorf("getent asked: %v, want %v", asked, c.asked)
			}
		})
	}
}

// TestAccountOfADirectoryService: found through getent, and its name is compared
// byte for byte, since some services fold case.
func TestAccountOfADirectoryService(t *testing.T) {
	for answer, want := range map[string]bool{"carol": true, "Carol": false, "carol2": false} {
		w := newWorld(t)
		d := w.dir()
		os.WriteFile(filepath.Join(w.etc, "nsswitch.conf"), []byte("passwd: files ldap\ngroup: files ldap\n"), 0o644)
		line := fmt.Sprintf("%s:x:%d:1500::%s:/bin/sh\n", answer, w.uid, w.home)
		w.passwd = w.passwd[:1]
		w.dir()
		d.Getent = func(_ context.Context, args ...string) ([]byte, error) {
			if args[0] == "passwd" {
				return []byte(line), nil
			}
			return nil, ErrNotFound
		}
		_, err := d.ForToken(t.Context(), "carol", w.policy)
		if (err == nil) != want {
			t.Errorf("answer %s: %v", answer, err)
		}
	}
}

func TestUnreadableDatabaseIsAFault(t *testing.T) {
	w := newWorld(t)
	d := w.dir()
	os.Remove(filepath.Join(w.etc, "group"))
	if _, err := d.ForToken(t.Context(), "alice", w.policy); err == nil || IsRefusal(err) {
		t.Errorf("got %v, want a fault and no refusal", err)
	}
}

// TestToldOfHome: a running worker ends when its account lost its home, and lives on when
// nobody can tell.
func TestToldOfHome(t *testing.T) {
	for errno, want := range map[syscall.Errno]bool{
		syscall.ENOENT: true, syscall.ENOTDIR: true, syscall.EACCES: true, syscall.EPERM: true, syscall.ELOOP: true, syscall.ENAMETOOLONG: true,
		syscall.EIO: false, syscall.ESTALE: false, syscall.ENOTCONN: false, syscall.ETIMEDOUT: false, syscall.EHOSTDOWN: false,
		syscall.EMFILE: false, syscall.ENFILE: false, syscall.ENOMEM: false,
	} {
		if got := toldOfHome(errno); got != want {
			t.Errorf("%v: %v, want %v", errno, got, want)
		}
	}
}

// TestNoDescriptorForAHome: a look that fails for want of descriptors is no refusal.
func TestNoDescriptorForAHome(t *testing.T) {
	w := newWorld(t)
	e := passwd{name: "alice", uid: uint32(w.uid), home: w.home}
	d := Directory{Etc: w.etc}
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	look := func() *subject {
		s := &subject{d: &d, entry: e, policy: w.policy}
		if why := home(s); why != "" {
			t.Errorf("refused: %s", why)
		}
		return s
	}
	if s := look(); s.fault != nil {
		t.Fatal(s.fault)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 0, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	s := look()
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(s.fault, syscall.EMFILE) {
		t.Errorf("got %v, want too many open files", s.fault)
	}
}
