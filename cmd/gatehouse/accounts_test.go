package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAccountsPrintsWhatTheServerReads(t *testing.T) {
	file := filepath.Join(t.TempDir(), "accounts.yaml")
	write := func(mode os.FileMode, text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
	}
	list := func() (int, string, string) {
		var out, errs bytes.Buffer
		code := run([]string{"accounts", file}, streams{in: strings.NewReader(""), out: &out, err: &errs})
		return code, out.String(), errs.String()
	}
	good := "# who may\n- issuer: https://id.example\n  subject: \"0123\"\n  account: zoe\n" +
		"- {issuer: \"https://id.example\", subject: \"s=:# 2\", account: \"alice\", client_id: \"ci\"}  # alice\n"
	write(0o600, good)
	want := "https://id.example\t0123\t\tzoe\t2\nhttps://id.example\ts=:# 2\tci\talice\t5\n"
	if code, out, errs := list(); code != exitDone || out != want || errs != "" {
		t.Errorf("exit %d\n%q\n%q, want\n%q", code, out, errs, want)
	}
	write(0o600, good+good)
	if code, out, errs := list(); code != exitFailed || out != "" || !strings.Contains(errs, "twice") {
		t.Errorf("an entry that is there twice: exit %d, %q, %q", code, out, errs)
	}
	write(0o622, good)
	if code, out, errs := list(); code != exitFailed || out != "" || errs == "" {
		t.Errorf("a file that others may write: exit %d, %q, %q", code, out, errs)
	}
}
