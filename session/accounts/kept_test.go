package accounts

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestChangesAreSeenAtOnce: with everything kept, each change to a file decides the
// very next question.
func TestChangesAreSeenAtOnce(t *testing.T) {
	tests := []struct {
		name   string
		change func(w *world)
		check  string // that refuses; "": the groups are other ones
	}{
		{"locked", func(w *world) { replace(w.shadow, "*", "!x") }, "locked"},
		{"expired", func(w *world) { replace(w.shadow, "7:::", "7::1:") }, "expired"},
		{"out of a group", func(w *world) { w.group[3] = "people:x:1600:bob" }, ""},
		{"in a denied group", func(w *world) { w.group[1] = "sudo:x:27:alice" }, "denied_group"},
		{"shell", func(w *world) { replace(w.passwd, "/bin/sh", "/bin/no") }, "shell"},
		{"removed", func(w *world) { w.passwd = w.passwd[:1] }, "lookup"},
	}
	for _, how := range []string{"written over", "replaced"} {
		for _, tt := range tests {
			t.Run(tt.name+", "+how, func(t *testing.T) {
				w := newWorld(t)
				d := w.dir()
				d.Now = func() time.Time { return time.Now().Add(time.Minute) } // the files are old
				for range 2 {
					if _, err := d.ForToken(t.Context(), "alice", w.policy); err != nil {
						t.Fatal(err)
					}
				}
				if d.kept.passwd.value == nil || d.kept.group.value == nil || d.kept.shadow.value == nil {
					t.Fatal("nothing was kept, so this test shows nothing")
				}
				time.Sleep(20 * time.Millisecond) // more than a step of the kernel's clock
				tt.change(w)
				if how == "replaced" { // as useradd(8) and its like do it
					for _, name := range []string{"passwd", "group", "shadow"} {
						if err := os.Remove(filepath.Join(w.etc, name)); err != nil {
							t.Fatal(err)
						}
					}
				}
				w.dir()
				a, err := d.ForToken(t.Context(), "alice", w.policy)
				if tt.check == "" {
					if err != nil || !slices.Equal(a.Groups, []uint32{1500, 1550}) {
						t.Errorf("groups %v, %v", a.Groups, err)
					}
				} else if !IsRefusal(err) || !strings.Contains(err.Error(), tt.check) {
					t.Errorf("%v, want a refusal by %s", err, tt.check)
				}
			})
		}
	}
}

// TestFreshFilesAreNotKept: a file that changed a moment ago may change again without
// its times moving on.
func TestFreshFilesAreNotKept(t *testing.T) {
	w := newWorld(t)
	d := w.dir()
	if _, err := d.ForToken(t.Context(), "alice", w.policy); err != nil {
		t.Fatal(err)
	}
	if d.kept.passwd.value != nil || d.kept.group.value != nil || d.kept.shadow.value != nil {
		t.Error("a file that was written just now is kept")
	}
}

// TestNoPasswordIsKept: of the password fields only what they mean stays in memory.
func TestNoPasswordIsKept(t *testing.T) {
	for field, want := range map[string]password{
		"x": passwordInShadow, "*": passwordNone, "!": passwordNone, "!!": passwordNone, "": passwordNone,
		"$y$j9T$abc$def": passwordNone, "!$y$j9T$abc$def": passwordLocked, "!*": passwordLocked, "!x": passwordLocked,
	} {
		if got := parsePassword(field); got != want {
			t.Errorf("%q means %d, want %d", field, got, want)
		}
	}
}

func BenchmarkForToken(b *testing.B) {
	d := &Directory{Etc: "/etc"}
	p := Policy{MinUID: 1, MaxUID: 65000, DeniedGroups: []string{"root", "sudo", "docker", "absent"}, ShadowLock: "ignore", AllowNologin: true, AllowOpenHome: true}
	if _, err := d.ForToken(b.Context(), "daemon", p); err != nil {
		b.Skip("SKIPPED: ", err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.ForToken(b.Context(), "daemon", p); err != nil {
			b.Fatal(err)
		}
	}
}
