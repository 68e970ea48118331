package accounts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gatehouse/auth/identity"
)

func typed(name string) identity.Account { return identity.Account(name) }

const sample = `# people
- issuer: https://id.test
  subject: fddec036-a0bf-4a90-8086-da6f3dd60de0
  account: alice
  name: Alice Example
  email: alice@example.org
- issuer: "https://id.test"
  subject: '0123'
  account: bob
- {issuer: https://id.test, subject: service, account: robot, client_id: nightly}
- {issuer: https://id.test, subject: '0123', account: bob-cli, client_id: cli}
`

func TestFind(t *testing.T) {
	m, err := ParseMap([]byte(sample))
	if err != nil || m.Len() != 4 {
		t.Fatalf("%d entries, %v", m.Len(), err)
	}
	for name, c := range map[string]struct {
		issuer, subject, client string
		own                     bool
		want                    string
	}{
		"a person":                        {"https://id.test", "fddec036-a0bf-4a90-8086-da6f3dd60de0", "any", false, "alice"},
		"another issuer":                  {"https://id.test/", "fddec036-a0bf-4a90-8086-da6f3dd60de0", "any", false, ""},
		"another case":                    {"https://id.test", "FDDEC036-a0bf-4a90-8086-da6f3dd60de0", "any", false, ""},
		"number kept as written":          {"https://id.test", "0123", "web", false, "bob"},
		"number read as octal":            {"https://id.test", "83", "web", false, ""},
		"the client's own entry wins":     {"https://id.test", "0123", "cli", false, "bob-cli"},
		"entry of another client":         {"https://id.test", "service", "other", false, ""},
		"no client":                       {"https://id.test", "service", "", false, ""},
		"client's own token, named":       {"https://id.test", "service", "nightly", true, "robot"},
		"client's own token, not named":   {"https://id.test", "0123", "web", true, ""},
		"client's own token, no client":   {"https://id.test", "0123", "", true, ""},
		"nobody":                          {"", "", "", false, ""},
		"client's own token, as a person": {"https://id.test", "fddec036-a0bf-4a90-8086-da6f3dd60de0", "any", true, ""},
	} {
		p := identity.Principal{Issuer: identity.Issuer(c.issuer), Subject: identity.Subject(c.subject), Client: identity.ClientID(c.client)}
		e, ok := m.Find(p, c.own)
		if ok != (c.want != "") || e.Account != c.want {
			t.Errorf("%s: %+v, %v; want account %q", name, e, ok, c.want)
		}
	}
	long := strings.Repeat("x", 512) // as a token's client may be
	if _, err := ParseMap([]byte("- {issuer: https://a, subject: x, account: a, client_id: " + long + "}\n")); err != nil {
		t.Errorf("a client id of 512 bytes: %v", err)
	}
	if _, ok := (*Map)(nil).Find(identity.Principal{}, false); ok {
		t.Error("no map knows somebody")
	}
	if e, _ := m.Find(identity.Principal{Issuer: "https://id.test", Subject: "fddec036-a0bf-4a90-8086-da6f3dd60de0"}, false); e.Name != "Alice Example" || e.Email != "alice@example.org" || e.Line != 2 {
		t.Errorf("got %+v", e)
	}
}

func TestMapErrorsNameThePlace(t *testing.T) {
	ok := "- issuer: https://a\n  subject: x\n  account: alice\n"
	for name, c := range map[string]struct{ text, want string }{
		"unknown key":          {ok + "  acount: bob\n", `line 4, column 3: unknown or repeated key "acount"`},
		"key in another case":  {"- Issuer: https://a\n", "line 1, column 3: unknown"},
		"repeated key":         {ok + "  account: bob\n", "line 4, column 3"},
		"octal subject":        {"- issuer: https://a\n  subject: 0123\n  account: alice\n", "line 2, column 12: the value of subject is no string"},
		"hex subject":          {"- issuer: https://a\n  subject: 0x1F\n  account: alice\n", "line 2"},
		"bool subject":         {"- issuer: https://a\n  subject: true\n  account: alice\n", "line 2"},
		"null subject":         {"- issuer: https://a\n  subject: ~\n  account: alice\n", "line 2"},
		"list as issuer":       {"- issuer: [a]\n", "line 1"},
		"literal block":        {"- issuer: |\n    https://a\n  subject: x\n  account: alice\n", "line 1"},
		"tag":                  {"- issuer: https://a\n  subject: !!binary aGk=\n  account: alice\n", "line 2"},
		"alias":                {"- issuer: &a https://a\n  subject: *a\n  account: alice\n", "line 1"},
		"merge key":            {ok + "- <<: {issuer: b}\n", "line 4"},
		"no list":              {"issuer: https://a\n", "not a list"},
		"list of words":        {"- alice\n", "not an entry"},
		"second document":      {ok + "---\n" + ok, "second document"},
		"bad syntax":           {"- issuer: 'https://a\n", "line 1"},
		"tab":                  {"- issuer: a\n\tsubject: b\n", "line 2"},
		"subject missing":      {"- issuer: https://a\n  account: alice\n", "line 1: subject is missing"},
		"empty account":        {"- issuer: https://a\n  subject: x\n  account: ''\n", "account is empty"},
		"upper-case account":   {"- issuer: https://a\n  subject: x\n  account: Alice\n", `account "Alice"`},
		"numeric account":      {"- issuer: https://a\n  subject: x\n  account: '0'\n", `account "0"`},
		"subject twice":        {ok + ok, "line 4: subject \"x\" of issuer \"https://a\" stands there twice"},
		"control in subject":   {"- issuer: https://a\n  subject: \"x\\n\"\n  account: alice\n", "control character"},
		"markup in name":       {ok + "  name: 'A <b>'\n", "may not hold <"},
		"e-mail without @":     {ok + "  email: alice\n", "no single @"},
		"e-mail with two":      {ok + "  email: a@b@c\n", "no single @"},
		"not UTF-8":            {"- issuer: \xff\n", "not UTF-8"},
		"value far too long":   {"- issuer: https://a\n  subject: " + strings.Repeat("x", 256) + "\n  account: a\n", "longer than 255"},
		"client far too long":  {"- issuer: https://a\n  subject: x\n  account: a\n  client_id: " + strings.Repeat("x", 513) + "\n", "longer than 512"},
		"larger than the file": {strings.Repeat("#", maxMapping+1), "larger"},
	} {
		_, err := ParseMap([]byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want an error with %q", name, err, c.want)
		}
	}
	for _, empty := range []string{"", "[]\n", "# nobody yet\n"} {
		if m, err := ParseMap([]byte(empty)); err != nil || m.Len() != 0 {
			t.Errorf("%q: %v, %v", empty, m, err)
		}
	}
}

func TestMapFileMustBeTheOperatorsOwn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "accounts.yaml")
	if err := os.WriteFile(path, []byte(sample), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadMap(path, os.Geteuid()); err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[os.FileMode]string{0o602: "everybody may write it", 0o666: "everybody may write it"} {
		os.Chmod(path, mode)
		if _, err := ReadMap(path, os.Geteuid()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
	os.Chmod(path, 0o600)
	if os.Geteuid() == 0 {
		os.Chown(path, 65534, 65534)
		if _, err := ReadMap(path, 0); err == nil || !strings.Contains(err.Error(), "belongs to uid 65534") {
			t.Errorf("file of another user: %v", err)
		}
		os.Chown(path, 0, 50)
		os.Chmod(path, 0o620)
		if _, err := ReadMap(path, 0); err == nil || !strings.Contains(err.Error(), "group 50 may write it") {
			t.Errorf("file of a group: %v", err)
		}
	}
	if _, err := ReadMap(filepath.Dir(path), os.Geteuid()); err == nil {
		t.Error("a folder was read")
	}
	if _, err := ReadMap(path+".missing", os.Geteuid()); !os.IsNotExist(unwrapAll(err)) {
		t.Errorf("missing file: %v", err)
	}
}

func unwrapAll(err error) error {
	for {
		u, ok := err.(interface{ Unwrap() error })
		if !ok {
			return err
		}
		if os.IsNotExist(err) {
			return err
		}
		err = u.Unwrap()
	}
}

func FuzzParseMap(f *testing.F) {
	f.Add([]byte(sample))
	f.Add([]byte("- issuer: 'x"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ParseMap(b)
		if err != nil {
			return
		}
		m.Entries(func(e Entry) {
			if err := e.check(); err != nil || !ValidName(e.Account) {
				t.Errorf("accepted %+v: %v", e, err)
			}
		})
	})
}
