package issuer

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/auth/keys"
)

// TestRestartDuringAnOutage: the saved set serves at once, for no longer than it
// would have without the restart.
func TestRestartDuringAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "state", "keys")
		c := Config{StateDir: dir, Sources: []Source{{Issuer: testIssuer}}}
		ks := newKeys(1)
		s := &script{answer: serving(ks...)}
		w := start(t, c, s)
		synctest.Wait()
		fetched := time.Now()
		w.stop()

		s.set(failing(keys.HealthUnreachable))
		time.Sleep(11 * time.Hour)
		w = start(t, c, s)
		synctest.Wait()
		if !w.has(ks[0].ID) || w.health() != keys.HealthUnreachable {
			t.Errorf("after the restart: known %v, health %s", w.has(ks[0].ID), w.health())
		}
		if st := w.store.Status()[0]; !st.FetchedAt.Equal(fetched) {
			t.Errorf("fetched %v, want %v", st.FetchedAt, fetched)
		}
		time.Sleep(time.Hour)
		if w.store.Ready() {
			t.Error("a restart made the set last longer")
		}
		w.stop()
		w = start(t, c, s)
		synctest.Wait()
		if w.store.Status()[0].Keys != 0 || !strings.Contains(w.log.String(), "too old") {
			t.Error("a stale set was restored")
		}
	})
}

func TestSavedSetIsRestoredBeforeTheFirstFetchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Config{StateDir: t.TempDir(), Sources: []Source{{Issuer: testIssuer}}}
		ks := newKeys(2)
		s := &script{answer: serving(ks[0])}
		w := start(t, c, s)
		synctest.Wait()
		w.stop()
		s.set(hanging)
		w = start(t, c, s)
		synctest.Wait()
		if !w.has(ks[0].ID) || w.health() != keys.HealthRestored {
			t.Errorf("known %v, health %s", w.has(ks[0].ID), w.health())
		}
		s.set(serving(ks[1]))
		time.Sleep(time.Minute)
		synctest.Wait()
		if w.has(ks[0].ID) || !w.has(ks[1].ID) || len(w.removed) != 1 {
			t.Errorf("the fetched set does not replace the restored one; removed %v", w.removed)
		}
	})
}

func TestSavedFile(t *testing.T) {
	dir := t.TempDir()
	src := Source{Issuer: testIssuer}
	f := newStateFile(dir, src)
	now := time.Now()
	ks := newKeys(2)
	for range 2 { // a second time over the first, and over what a crash left
		if err := f.save(update(now, ks...)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(f.name+".tmp", []byte("half"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.save(update(now, ks...)); err != nil {
		t.Fatal(err)
	}
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 1 {
		t.Fatalf("the folder holds %v, %v", names, err)
	}
	if st, err := names[0].Info(); err != nil || st.Mode() != 0o600 {
		t.Errorf("mode is %v, %v", st.Mode(), err)
	}
	u, err := f.load(now.Add(time.Hour), 12*time.Hour)
	if err != nil || u == nil || len(u.Keys) != 2 || u.Health != keys.HealthRestored || !u.FetchedAt.Equal(now) {
		t.Errorf("loaded %+v, %v", u, err)
	}
	if u, err := newStateFile(dir, Source{Issuer: testIssuer, JWKSURL: "https://other.example"}).load(now, time.Hour); u != nil || err != nil {
		t.Errorf("keys of another configuration: %+v, %v", u, err)
	}
	for name, f := range map[string]*stateFile{
		"no folder":    newStateFile("", src),
		"key set file": newStateFile(dir, Source{Issuer: testIssuer, JWKSFile: "/x"}),
	} {
		if err := f.save(update(now, ks...)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if u, err := f.load(now, time.Hour); u != nil || err != nil {
			t.Errorf("%s: %+v, %v", name, u, err)
		}
	}
}

func TestSavedFilesThatAreNotUsed(t *testing.T) {
	now := time.Now()
	good, err := update(now, newKeys(1)...).Encode()
	if err != nil {
		t.Fatal(err)
	}
	other := update(now, newKeys(1)...)
	other.Issuer = "https://other.example"
	foreign, err := other.Encode()
	if err != nil {
		t.Fatal(err)
	}
	write := func(b []byte, mode os.FileMode) func(string) error {
		return func(name string) error {
			if err := os.WriteFile(name, b, 0o600); err != nil {
				return err
			}
			return os.Chmod(name, mode)
		}
	}
	for name, c := range map[string]struct {
		put func(name string) error
		at  time.Time
	}{
		"readable by others": {write(good, 0o644), now},
		"writable by group":  {write(good, 0o620), now},
		"link":               {func(n string) error { return os.Symlink("/etc/hostname", n) }, now},
		"folder":             {func(n string) error { return os.Mkdir(n, 0o600) }, now},
		"empty":              {write(nil, 0o600), now},
		"garbage":            {write([]byte("hello"), 0o600), now},
		"cut":                {write(good[:len(good)/2], 0o600), now},
		"too large":          {write(append(good, bytes.Repeat([]byte(" "), keys.MaxMessage)...), 0o600), now},
		"another issuer's":   {write(foreign, 0o600), now},
		"stale":              {write(good, 0o600), now.Add(12 * time.Hour)},
		"of the future":      {write(good, 0o600), now.Add(-2 * time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			f := newStateFile(t.TempDir(), Source{Issuer: testIssuer})
			if err := c.put(f.name); err != nil {
				t.Fatal(err)
			}
			if u, err := f.load(c.at, 12*time.Hour); err == nil || u != nil {
				t.Errorf("loaded %+v, %v", u, err)
			}
		})
	}
}

func TestFolderThatCantBeWrittenIsSaidAndSurvived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		ks := newKeys(1)
		w := start(t, Config{StateDir: filepath.Join(file, "keys"), Sources: []Source{{Issuer: testIssuer}}}, &script{answer: serving(ks...)})
		synctest.Wait()
		if !w.has(ks[0].ID) || !strings.Contains(w.log.String(), "keys not saved") {
			t.Errorf("known %v, log %s", w.has(ks[0].ID), w.log)
		}
	})
}

// FuzzSavedFile holds that nothing is restored but keys of the issuer, from a good
// fetch, at a time when they are usable.
func FuzzSavedFile(f *testing.F) {
	now := time.Unix(1_790_000_000, 0)
	good, err := update(now, newKeys(1)...).Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(bytes.Replace(good, []byte(`"ok"`), []byte(`"tls"`), 1))
	f.Add(bytes.Replace(good, []byte(testIssuer), []byte("https://other.example"), 1))
	f.Add(bytes.ReplaceAll(good, []byte("17900"), []byte("17800")))
	state := newStateFile("", Source{Issuer: testIssuer})
	f.Fuzz(func(t *testing.T, b []byte) {
		u, err := state.parse(b, now, 12*time.Hour)
		if err != nil {
			return
		}
		age := now.Sub(u.FetchedAt)
		if u.Issuer != testIssuer || len(u.Keys) == 0 || u.Health != keys.HealthRestored || age < -clockSlack || age >= 12*time.Hour {
			t.Errorf("restored %+v", u)
		}
	})
}
