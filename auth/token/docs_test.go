package token_test

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"gatehouse/auth/token"
)

// TestDocument holds that docs/tokens.md has the checks as they are, in order,
// and the fixed texts.
func TestDocument(t *testing.T) {
	doc, err := os.ReadFile("../../docs/tokens.md")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|").FindAllSubmatch(doc, -1) {
		names = append(names, string(m[1]))
	}
	if !slices.Equal(names, token.CheckNames()) {
		t.Errorf("docs/tokens.md has the checks\n%v\nthe code has\n%v", names, token.CheckNames())
	}
	for _, text := range append(append([]string{}, before...), after...) {
		if !regexp.MustCompile("(?m)^\\| [a-z, ]+ \\| `" + text + "` \\|$").Match(doc) {
			t.Errorf("docs/tokens.md lacks the text %q", text)
		}
	}
}
