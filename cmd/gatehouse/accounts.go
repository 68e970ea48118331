package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"

	"gatehouse/session/accounts"
)

// accountsCmd is for scripts that edit an accounts file: they learn from the
// server's own strict reader whether it is right and what it holds.
type accountsCmd struct {
	File string `arg:"" help:"The accounts file."`
}

// Run prints the entries in the file's order: issuer, subject, client id ("" for
// any), account and line, with tabs between. No value can hold a tab.
func (a accountsCmd) Run(s streams) error {
	m, err := accounts.ReadMap(a.File, os.Geteuid())
	if err != nil {
		return err
	}
	list := make([]accounts.Entry, 0, m.Len())
	m.Entries(func(e accounts.Entry) { list = append(list, e) })
	slices.SortFunc(list, func(a, b accounts.Entry) int { return cmp.Compare(a.Line, b.Line) })
	for _, e := range list {
		if _, err := fmt.Fprintf(s.out, "%s\t%s\t%s\t%s\t%d\n", e.Issuer, e.Subject, e.ClientID, e.Account, e.Line); err != nil {
			return fmt.Errorf("print entries: %w", err)
		}
	}
	return nil
}
