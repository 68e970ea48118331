package accounts

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"gatehouse/session/filestate"
)

// kept is one database as it was parsed, for as long as its file is the same: it is
// looked at anew for every question (docs/decisions/0007-account-files.md). The zero
// value holds nothing.
type kept[T any] struct {
	mu    sync.Mutex // guards what follows
	state filestate.State
	value *T // nil: nothing is kept
}

// get returns what parse makes of the file. The result is shared and never changed.
func (k *kept[T]) get(path string, now time.Time, parse func(text string) *T) (*T, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.value != nil {
		if s, err := filestate.Of(path); err == nil && s == k.state {
			return k.value, nil
		}
		k.value = nil
	}
	text, s, err := readWhole(path)
	if err != nil {
		return nil, err
	}
	v := parse(text)
	if s.Settled(now) {
		k.state, k.value = s, v
	}
	return v, nil
}

// readWhole reads a file, and what state it had before and after that; the zero
// State when it changed meanwhile.
func readWhole(path string) (string, filestate.State, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", filestate.State{}, fmt.Errorf("read account database: %w", err)
	}
	defer f.Close()
	before, err := filestate.OfFD(f.Fd())
	if err != nil {
		return "", filestate.State{}, fmt.Errorf("read account database %s: %w", filepath.Base(path), err)
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return "", filestate.State{}, fmt.Errorf("read account database %s: %w", filepath.Base(path), err)
	}
	if after, err := filestate.OfFD(f.Fd()); err != nil || after != before {
		before = filestate.State{}
	}
	return string(b), before, nil
}

// databases are the parsed files of a Directory.
type databases struct {
	passwd kept[passwdFile]
	group  kept[groupFile]
	shadow kept[shadowFile]
	nss    kept[nssFile]
}

// passwdFile is passwd(5). Of two lines with one name, or one uid, the first counts.
type passwdFile struct {
	byName map[string]passwd
	byUID  map[uint32]passwd
}

// groupFile is group(5).
type groupFile struct {
	gid map[string]uint32   // of the first line with that name
	of  map[string][]uint32 // gids by member
}

// shadowFile is what is used of shadow(5), by name: no password stays in memory.
type shadowFile map[string]shadow

// nssFile is nsswitch.conf(5): the sources of each database.
type nssFile map[string][]string

// view is the databases as they are now, for one question: a file is looked at once.
type view struct {
	d      *Directory
	passwd *passwdFile
	group  *groupFile  // nil in a view for passwd alone
	shadow *shadowFile // nil unless asked for
	nss    nssFile     // nil: there is none
}

// which are the files that a view needs beside passwd.
type which struct{ group, shadow bool }

// look takes a view.
func (d *Directory) look(w which) (*view, error) {
	v, now := &view{d: d}, d.now()
	path := func(name string) string { return filepath.Join(d.Etc, name) }
	var err error
	if v.passwd, err = d.kept.passwd.get(path("passwd"), now, parsePasswdFile); err != nil {
		return nil, err
	}
	if w.group {
		if v.group, err = d.kept.group.get(path("group"), now, parseGroupFile); err != nil {
			return nil, err
		}
	}
	if w.shadow {
		if v.shadow, err = d.kept.shadow.get(path("shadow"), now, parseShadowFile); err != nil {
			return nil, err
		}
	}
	if nss, err := d.kept.nss.get(path("nsswitch.conf"), now, parseNSSFile); err == nil {
		v.nss = *nss
	}
	return v, nil
}

// sources are those of a database; files alone where nothing is said.
func (v *view) sources(db string) []string {
	if s, ok := v.nss[db]; ok {
		return s
	}
	return []string{"files"}
}
