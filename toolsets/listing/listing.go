// Package listing is the toolset that lists packages, types and other names.
// It looks at syntax alone, so that code which does not compile lists, too.
package listing

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gatehouse/toolsets"
	"gatehouse/toolsets/program"
	"gatehouse/toolsets/workspace"
)

type listing struct{ ws *workspace.Workspace }

// New returns the toolset over a workspace.
func New(ws *workspace.Workspace) toolsets.Toolset {
	l := listing{ws}
	pkg := toolsets.Param{Name: "package", Type: toolsets.String, Required: true,
		Meaning: "Import path, or its last element where that is unambiguous."}
	entries := toolsets.OutputOf[toolsets.Page[program.Entry]]()
	return toolsets.Toolset{
		Name:    "listing",
		Summary: "Packages, types and other names of the workspace.",
		Guide:   "Start with list_packages, then list_package_entries of the package that matters.",
		Tools: []toolsets.Tool{
			{Name: "list_packages", Title: "List packages", Viewed: true, Paged: true, ReadOnly: true, Idempotent: true,
				Description: "Lists the workspace's packages in build order (imports first), each with the first sentence of its documentation. Packages that do not load or parse are marked.",
				Output:      toolsets.OutputOf[toolsets.Page[Package]](), Call: l.packages},
			{Name: "list_package_entries", Title: "List a package's names", Viewed: true, Paged: true, ReadOnly: true, Idempotent: true,
				Description: "Lists every top-level name that a package declares, tagged (type) (func) (const) (var). Names in test files are left out.",
				Params:      []toolsets.Param{pkg}, Output: entries, Call: l.entries},
			{Name: "list_types", Title: "List a package's types", Viewed: true, Paged: true, ReadOnly: true, Idempotent: true,
				Description: "Lists the types that a package declares.",
				Params:      []toolsets.Param{pkg}, Output: entries, Call: l.types},
			{Name: "list_all_types", Title: "List all types", Viewed: true, Paged: true, ReadOnly: true, Idempotent: true,
				Description: "Lists the types of all packages of the workspace.",
				Output:      entries, Call: l.allTypes},
		},
	}
}

// Package is an entry of list_packages.
type Package struct {
	Path     string `json:"path"`
	Name     string `json:"name"`
	Dir      string `json:"dir" jsonschema:"folder relative to the workspace"`
	Synopsis string `json:"synopsis,omitempty"`
	Errors   int    `json:"errors" jsonschema:"errors of loading and parsing"`
}

func (l listing) packages(ctx context.Context, c *toolsets.Call) (*toolsets.Result, error) {
	s, snap, err := l.ws.Read(ctx, c)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	var all []Package
	for _, q := range snap.Plains() {
		all = append(all, Package{q.Folder(), q.Name, q.Dir, q.Synopsis(), len(q.Errors())})
	}
	return toolsets.Paged(c, all, func(p Package) string {
		line := p.Path
		if p.Name == "main" {
			line += " (main)"
		}
		if p.Synopsis != "" {
			line += ": " + p.Synopsis
		}
		if p.Errors > 0 {
			line += " [broken: " + toolsets.Count(p.Errors, "error") + "]"
		}
		return line
	}), nil
}

func (l listing) list(ctx context.Context, c *toolsets.Call, keep func(program.Entry) bool, line func(program.Entry) string) (*toolsets.Result, error) {
	s, snap, err := l.ws.Read(ctx, c)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	pkgs := snap.Plains()
	if c.Has("package") {
		q, err := snap.Package(c.String("package"))
		if err != nil {
			return nil, err
		}
		pkgs = []*program.Package{q}
	}
	var all []program.Entry
	for _, q := range pkgs {
		var some []program.Entry
		for _, e := range q.Entries() {
			if keep(e) {
				some = append(some, e)
			}
		}
		slices.SortStableFunc(some, func(a, b program.Entry) int { return strings.Compare(a.Name, b.Name) })
		all = append(all, some...)
	}
	return toolsets.Paged(c, all, line), nil
}

func (l listing) entries(ctx context.Context, c *toolsets.Call) (*toolsets.Result, error) {
	return l.list(ctx, c, func(program.Entry) bool { return true }, func(e program.Entry) string {
		return withSynopsis(fmt.Sprintf("(%s) %s", e.Tag, e.Name), e)
	})
}

func isType(e program.Entry) bool { return e.Tag == "type" }

func (l listing) types(ctx context.Context, c *toolsets.Call) (*toolsets.Result, error) {
	return l.list(ctx, c, isType, func(e program.Entry) string {
		return withSynopsis(e.Name+" "+e.Kind, e)
	})
}

func (l listing) allTypes(ctx context.Context, c *toolsets.Call) (*toolsets.Result, error) {
	return l.list(ctx, c, isType, func(e program.Entry) string {
		return withSynopsis(e.Package+"."+e.Name+" "+e.Kind, e)
	})
}

func withSynopsis(line string, e program.Entry) string {
	if e.Synopsis != "" {
		return line + ": " + e.Synopsis
	}
	return line
}
