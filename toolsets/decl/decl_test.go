package decl

import (
	"bytes"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestSplitLosesNoByte(t *testing.T) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(root)), "src/go/*/*.go"))
	if err != nil || len(files) < 50 {
		t.Fatalf("found %d files, %v", len(files), err)
	}
	for _, name := range files {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		checkSplit(t, name, src)
		checkSplit(t, name+" with CRLF", bytes.ReplaceAll(src, []byte("\n"), []byte("\r\n")))
	}
}

func checkSplit(t *testing.T, name string, src []byte) {
	t.Helper()
	f, err := Split(src)
	if err != nil {
		return // testdata that does not parse
	}
	var joined []byte
	for _, u := range f.Units {
		if u.Start > u.Doc || u.Doc > u.Decl || u.Decl > u.End {
			t.Fatalf("%s: unit %+v", name, u)
		}
		joined = append(joined, src[u.Start:u.End]...)
	}
	if !bytes.Equal(joined, src) {
		t.Errorf("%s: the units are not the file", name)
	}
}

func TestSplitNames(t *testing.T) {
	src := "\ufeff// Head.\npackage p // tail\n\nimport \"fmt\"\n\n// free\n\n// F does.\nfunc F() {} // same line\nfunc (t *T[K, V]) M() {}\n\nfunc init() {}\nfunc init() { _ = 1 }\n\n" +
		"type (\n\tA int\n\tB = A\n)\n\nconst (\n\tx = iota\n\ty\n)\n\nvar a = 1; var b = 2\nvar _ = 3\n\n// end\n"
	f, err := Split([]byte(src))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, u := range f.Units {
		got = append(got, strings.Join(u.Names, ","))
	}
	want := "||F|T.M|init#1|init#2|A,B|x,y|a|b|_ var _ = 3|"
	if s := strings.Join(got, "|"); s != want {
		t.Errorf("names %s, want %s", s, want)
	}
	u, _ := f.Find("F")
	if s := string(f.Text(u)); s != "// F does.\nfunc F() {} // same line\n" {
		t.Errorf("text of F: %q", s)
	}
	if s := string(f.Gap(u)); s != "\n// free\n\n" {
		t.Errorf("gap of F: %q", s)
	}
	if u, _ := f.Find("x"); !u.Iota || !u.Grouped {
		t.Errorf("x: %+v", u)
	}
}

// noLines refuses every merge by lines, so that a test sees where one is asked for.
func noLines(_, _, _ []byte) ([]byte, bool) { return nil, false }

const mergeBase = `package p

import "fmt"

// A is first.
func A() { fmt.Println("a") }

func B() {}

func C() {}
`

func TestMergeJoinsDisjointChanges(t *testing.T) {
	ours := strings.Replace(mergeBase, `func B() {}`, "func B() { os.Exit(1) }\n\nfunc New() {}", 1)
	ours = strings.Replace(ours, `import "fmt"`, "import (\n\t\"fmt\"\n\t\"os\"\n)", 1)
	theirs := strings.Replace(mergeBase, `func C() {}`, `func C() { strings.ToUpper("") }`, 1)
	theirs = strings.Replace(theirs, `import "fmt"`, "import (\n\t\"fmt\"\n\t\"strings\"\n)", 1)
	got, conflicts, err := Merge([]byte(mergeBase), []byte(ours), []byte(theirs), noLines)
	if err != nil || len(conflicts) > 0 {
		t.Fatalf("conflicts %v, %v", conflicts, err)
	}
	want := `package p

import (
	"fmt"
	"os"
	"strings"
)

// A is first.
func A() { fmt.Println("a") }

func B() { os.Exit(1) }

func New() {}

func C() { strings.ToUpper("") }
`
	if string(got) != want {
		t.Errorf("got:\n%s", got)
	}
}

func TestMergeRefusesTheSameDeclaration(t *testing.T) {
	edit := func(old, new string) string { return strings.Replace(mergeBase, old, new, 1) }
	for _, c := range []struct{ name, ours, theirs, want string }{
		{"both changed", edit("func B() {}", "func B() { _ = 1 }"), edit("func B() {}", "func B() { _ = 2 }"), "B"},
		{"changed and deleted", edit("func B() {}", "func B() { _ = 1 }"), edit("func B() {}\n\n", ""), "B"},
		{"deleted and changed", edit("func B() {}\n\n", ""), edit("func B() {}", "func B() { _ = 1 }"), "B"},
		{"both added", mergeBase + "\nfunc D() {}\n", edit("func B() {}", "func D() { _ = 1 }\n\nfunc B() {}"), "D"},
		{"doc and body", edit("// A is first.", "// A is 1st."), edit(`"a"`, `"b"`), "A"},
		{"package name", edit("package p", "package q"), edit("package p", "package r"), "the head of the file"},
	} {
		got, conflicts, err := Merge([]byte(mergeBase), []byte(c.ours), []byte(c.theirs), noLines)
		if err != nil || len(conflicts) != 1 || conflicts[0] != c.want {
			t.Errorf("%s: conflicts %v, %v\n%s", c.name, conflicts, err, got)
		}
	}
}

func TestMergeTakesTheOnlyChange(t *testing.T) {
	other := strings.Replace(mergeBase, "func B() {}\n\n", "", 1) + "\n// the end\n"
	for _, c := range [][2]string{{other, mergeBase}, {mergeBase, other}, {other, other}} {
		got, conflicts, err := Merge([]byte(mergeBase), []byte(c[0]), []byte(c[1]), noLines)
		if err != nil || len(conflicts) > 0 || string(got) != other {
			t.Errorf("conflicts %v, %v\n%s", conflicts, err, got)
		}
	}
}

func TestMergeKeepsAnImportThatIsStillNeeded(t *testing.T) {
	ours := strings.Replace(strings.Replace(mergeBase, `fmt.Println("a")`, "", 1), "import \"fmt\"\n\n", "", 1)
	theirs := strings.Replace(mergeBase, "func C() {}", "func C() { fmt.Print() }", 1)
	for _, c := range [][2]string{{ours, theirs}, {theirs, ours}} {
		got, conflicts, err := Merge([]byte(mergeBase), []byte(c[0]), []byte(c[1]), noLines)
		if err != nil || len(conflicts) > 0 || !strings.Contains(string(got), `"fmt"`) || strings.Contains(string(got), "Println") {
			t.Errorf("conflicts %v, %v\n%s", conflicts, err, got)
		}
	}
}

func TestMergeKeepsCommentsAmongTheImports(t *testing.T) {
	ours := strings.Replace(mergeBase, `import "fmt"`, "// for printing\nimport \"fmt\"", 1)
	theirs := strings.Replace(mergeBase, "func C() {}", "func C() { _ = 1 }", 1)
	got, conflicts, err := Merge([]byte(mergeBase), []byte(ours), []byte(theirs), noLines)
	if err != nil || len(conflicts) > 0 || !strings.Contains(string(got), "// for printing\nimport") || !strings.Contains(string(got), "_ = 1") {
		t.Errorf("conflicts %v, %v\n%s", conflicts, err, got)
	}
	theirs = strings.Replace(theirs, `import "fmt"`, "import (\n\t\"fmt\"\n\t_ \"os\"\n)", 1)
	if _, conflicts, _ := Merge([]byte(mergeBase), []byte(ours), []byte(theirs), noLines); len(conflicts) != 1 {
		t.Errorf("both changed the imports, one a comment: conflicts %v", conflicts)
	}
}

func TestIotaGroupsAreNotMergedByLines(t *testing.T) {
	base := "package p\n\nconst (\n\ta = iota\n\tb\n\tc\n)\n"
	ours := strings.Replace(base, "\ta = iota\n", "\ta = iota\n\tx\n", 1)
	theirs := strings.Replace(base, "\tc\n", "\tc\n\td\n", 1)
	asked := false
	_, conflicts, err := Merge([]byte(base), []byte(ours), []byte(theirs), func(_, _, t []byte) ([]byte, bool) { asked = true; return t, true })
	if err != nil || len(conflicts) != 1 || asked {
		t.Errorf("conflicts %v, %v, merged by lines: %v", conflicts, err, asked)
	}
}

func TestSetImports(t *testing.T) {
	const body = "\nvar _ = 1\n"
	fmtI, osI, ext := Imported{Path: "fmt"}, Imported{Path: "os"}, Imported{Name: "y", Path: "example.com/y"}
	for _, c := range []struct {
		name, src   string
		add, remove []Imported
		want        string
	}{
		{"none yet", "package p\n", []Imported{fmtI}, nil, "package p\n\nimport \"fmt\"\n"},
		{"single", "package p\n\nimport \"os\"\n", []Imported{fmtI}, nil, "package p\n\nimport (\n\t\"fmt\"\n\t\"os\"\n)\n"},
		{"other class", "package p\n\nimport \"os\"\n", []Imported{ext}, nil, "package p\n\nimport (\n\t\"os\"\n\n\ty \"example.com/y\"\n)\n"},
		{"block", "package p\n\nimport (\n\t\"bytes\"\n\t\"os\" // why\n)\n", []Imported{fmtI}, nil, "package p\n\nimport (\n\t\"bytes\"\n\t\"fmt\"\n\t\"os\" // why\n)\n"},
		{"new group", "package p\n\nimport (\n\t\"os\"\n)\n", []Imported{ext}, nil, "package p\n\nimport (\n\t\"os\"\n\n\ty \"example.com/y\"\n)\n"},
		{"std before others", "package p\n\nimport (\n\ty \"example.com/y\"\n)\n", []Imported{osI}, nil, "package p\n\nimport (\n\t\"os\"\n\n\ty \"example.com/y\"\n)\n"},
		{"there already", "package p\n\nimport \"os\"\n", []Imported{osI}, nil, "package p\n\nimport \"os\"\n"},
		{"remove the only one", "package p\n\nimport \"os\"\n", nil, []Imported{osI}, "package p\n"},
		{"remove a line", "package p\n\nimport (\n\t\"fmt\"\n\t\"os\"\n)\n", nil, []Imported{osI}, "package p\n\nimport (\n\t\"fmt\"\n)\n"},
		{"remove a group", "package p\n\nimport (\n\t\"fmt\"\n\n\ty \"example.com/y\"\n)\n", nil, []Imported{ext}, "package p\n\nimport (\n\t\"fmt\"\n)\n"},
		{"cgo is left alone", "package p\n\n// #include <x.h>\nimport \"C\"\n", []Imported{osI}, nil, "package p\n\nimport \"os\"\n\n// #include <x.h>\nimport \"C\"\n"},
		{"CRLF", "package p\r\n\r\nimport (\r\n\t\"fmt\"\r\n)\r\n", []Imported{osI}, nil, "package p\r\n\r\nimport (\r\n\t\"fmt\"\r\n\t\"os\"\r\n)\r\n"},
	} {
		got, err := SetImports([]byte(c.src+body), c.add, c.remove)
		if err != nil || string(got) != c.want+body {
			t.Errorf("%s: %v, got:\n%q", c.name, err, got)
			continue
		}
		if !strings.Contains(c.src, "\r") {
			if f, err := format.Source(got); err != nil || !bytes.Equal(f, got) {
				t.Errorf("%s: gofmt disagrees (%v)", c.name, err)
			}
		}
	}
}

// declaredTwice returns a name that a file declares more than once.
func declaredTwice(f *File) string {
	seen := map[string]bool{}
	for _, u := range f.Units {
		for _, n := range u.Names {
			if seen[n] {
				return n
			}
			seen[n] = true
		}
	}
	return ""
}

// FuzzMerge merges two edits of a file whose shape the fuzzer chooses: of two
// functions one changes each, and both changes must be there exactly once.
func FuzzMerge(f *testing.F) {
	f.Add("\n// free\n", "import \"fmt\"\n", "func X() { fmt.Print() }\n")
	f.Add("", "// c", "var _ = 1; var a = 2")
	f.Add("", "", "var A=0;var A=0")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		file := func(f, g string) []byte {
			return []byte("package p\n" + b + "\nfunc FirstOne() { " + f + " }\n" + a + "\nfunc SecondOne() { " + g + " }\n" + c)
		}
		base := file("", "")
		split, err := Split(base)
		if err != nil || strings.Contains(string(base), "mark") {
			return
		}
		for _, n := range []string{"FirstOne", "SecondOne"} {
			if u, ok := split.Find(n); !ok || u.Kind != Func || strings.Count(string(base), n) != 1 {
				return
			}
		}
		got, conflicts, err := Merge(base, file("mark(1)", ""), file("", "mark(2)"), noLines)
		if twice := declaredTwice(split); twice != "" { // no program: it may be refused, and nothing is lost
			if err == nil && len(conflicts) == 0 && !bytes.Equal(got, file("mark(1)", "mark(2)")) {
				t.Errorf("%s stands twice; got:\n%s", twice, got)
			}
			return
		}
		if err != nil || len(conflicts) > 0 {
			t.Fatalf("conflicts %v, %v", conflicts, err)
		}
		if want := file("mark(1)", "mark(2)"); !bytes.Equal(got, want) {
			t.Errorf("got:\n%s\nwant:\n%s", got, want)
		}
	})
}
