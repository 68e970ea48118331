package view

import (
	"bytes"
	"slices"
	"testing"

	"gatehouse/toolsets"
)

// TestLargeFiles: what is more than one git command may say is committed all the
// same, and is a conflict where it would have to be merged.
func TestLargeFiles(t *testing.T) {
	w := newWorld(t)
	v, bob := w.view("alice"), w.view("bob")
	const most = 1 << 20 // in place of maxBlob
	v.git.most, bob.git.most = most, most
	text := func(size int, last string) []byte {
		line := append(bytes.Repeat([]byte("/"), 1023), '\n')
		return append(append([]byte("package p\n"), bytes.Repeat(line, size>>10)...), last...)
	}
	for name, size := range map[string]int{"one.go": most/2 + 1<<16, "two.go": most/2 + 1<<16, "three.go": most + 1<<16} {
		if err := v.WriteFile(t.Context(), name, text(size, "func F"+name[:2]+"() {}\n")); err != nil {
			t.Fatal(err)
		}
	}
	v.Touched()
	ch, err := v.Changes(t.Context())
	if err != nil || len(ch) != 3 || !slices.Equal(ch[0].Declarations, []string{"Fon"}) || ch[1].Declarations != nil || !slices.Equal(ch[2].Declarations, []string{"Ftw"}) {
		t.Errorf("changes %+v, %v", ch, err)
	}
	if _, err := v.Commit(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if err := bob.WriteFile(t.Context(), "three.go", []byte("package p\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := bob.Commit(t.Context(), ""); kind(err) != toolsets.Conflict {
		t.Errorf("both added it: %v", err)
	}
}
