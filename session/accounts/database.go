package accounts

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// passwd is a line of passwd(5).
type passwd struct {
	name, password string
	uid, gid       uint32
	home, shell    string
	local          bool // from the file, not from another source
}

// group is a line of group(5).
type group struct {
	name    string
	gid     uint32
	members []string
}

// shadow is what of a line of shadow(5) is used.
type shadow struct {
	password string
	expire   string // days since 1970, "": never
}

// byName is getpwnam(3).
func (d *Directory) byName(ctx context.Context, name string) (passwd, error) {
	e, err := d.findPasswd(func(e passwd) bool { return e.name == name })
	if errors.Is(err, ErrNotFound) && d.others("passwd") {
		return d.getentPasswd(ctx, name)
	}
	return e, err
}

// byUID is getpwuid(3).
func (d *Directory) byUID(ctx context.Context, uid uint32) (passwd, error) {
	e, err := d.findPasswd(func(e passwd) bool { return e.uid == uid })
	if errors.Is(err, ErrNotFound) && d.others("passwd") {
		return d.getentPasswd(ctx, strconv.FormatUint(uint64(uid), 10))
	}
	return e, err
}

func (d *Directory) findPasswd(want func(passwd) bool) (passwd, error) {
	var found *passwd
	err := d.lines("passwd", func(line string) bool {
		if e, ok := parsePasswd(line); ok && want(e) {
			e.local = true
			found = &e
		}
		return found == nil
	})
	switch {
	case err != nil:
		return passwd{}, err
	case found == nil:
		return passwd{}, ErrNotFound
	}
	return *found, nil
}

// groupsOf returns the groups that name is a member of, its own aside.
func (d *Directory) groupsOf(ctx context.Context, e passwd) ([]uint32, error) {
	var gids []uint32
	err := d.lines("group", func(line string) bool {
		if g, ok := parseGroup(line); ok && slices.Contains(g.members, e.name) {
			gids = append(gids, g.gid)
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	// Beside files, "systemd" knows only accounts that it made itself.
	if d.others("group") && !(e.local && d.onlySystemd("group")) {
		more, err := d.getentInitgroups(ctx, e.name)
		if err != nil {
			return nil, err
		}
		gids = append(gids, more...)
	}
	return gids, nil
}

// gidOf returns the number of a group, and false when there is none.
func (d *Directory) gidOf(ctx context.Context, name string) (uint32, bool, error) {
	var found *group
	err := d.lines("group", func(line string) bool {
		if g, ok := parseGroup(line); ok && g.name == name {
			found = &g
		}
		return found == nil
	})
	switch {
	case err != nil:
		return 0, false, err
	case found != nil:
		return found.gid, true, nil
	case !d.others("group") || d.onlySystemd("group"):
		return 0, false, nil
	}
	g, err := d.getentGroup(ctx, name)
	if errors.Is(err, ErrNotFound) {
		return 0, false, nil
	}
	return g.gid, err == nil, err
}

// shadowOf returns the shadow entry; ok is false when there is none.
func (d *Directory) shadowOf(name string) (s shadow, ok bool, err error) {
	err = d.lines("shadow", func(line string) bool {
		f := strings.Split(line, ":")
		if len(f) == 9 && f[0] == name {
			s, ok = shadow{password: f[1], expire: f[7]}, true
		}
		return !ok
	})
	return s, ok, err
}

// lines calls fn for every line of a database until it returns false.
func (d *Directory) lines(name string, fn func(line string) bool) error {
	f, err := os.Open(filepath.Join(d.Etc, name))
	if err != nil {
		return fmt.Errorf("read account database: %w", err)
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 64<<10)
	for {
		line, err := r.ReadString('\n')
		if line = strings.TrimSuffix(line, "\n"); line != "" && !fn(line) {
			return nil
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read account database %s: %w", name, err)
		}
	}
}

func parsePasswd(line string) (passwd, bool) {
	f := strings.Split(line, ":")
	if len(f) != 7 || f[0] == "" {
		return passwd{}, false
	}
	uid, err1 := parseID(f[2])
	gid, err2 := parseID(f[3])
	if err1 != nil || err2 != nil {
		return passwd{}, false
	}
	return passwd{name: f[0], password: f[1], uid: uid, gid: gid, home: f[5], shell: f[6]}, true
}

func parseGroup(line string) (group, bool) {
	f := strings.Split(line, ":")
	if len(f) != 4 || f[0] == "" {
		return group{}, false
	}
	gid, err := parseID(f[2])
	if err != nil {
		return group{}, false
	}
	g := group{name: f[0], gid: gid}
	if f[3] != "" {
		g.members = strings.Split(f[3], ",")
	}
	return g, true
}

// parseID reads a decimal id and nothing that only looks like one ("+0", "00",
// "0x10").
func parseID(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return 0, err
	}
	if strconv.FormatUint(n, 10) != s || n > math.MaxUint32 {
		return 0, strconv.ErrSyntax
	}
	return uint32(n), nil
}

// others reports whether nsswitch.conf names a source beside files for a
// database, and there is a way to ask it.
func (d *Directory) others(db string) bool {
	if d.Getent == nil {
		return false
	}
	return slices.ContainsFunc(d.sources(db), func(s string) bool { return s != "files" && s != "compat" })
}

// onlySystemd reports whether systemd is the only source beside files.
func (d *Directory) onlySystemd(db string) bool {
	return !slices.ContainsFunc(d.sources(db), func(s string) bool {
		return s != "files" && s != "compat" && s != "systemd"
	})
}

// sources returns the sources of a database in nsswitch.conf(5), without actions
// such as [NOTFOUND=return].
func (d *Directory) sources(db string) []string {
	b, err := os.ReadFile(filepath.Join(d.Etc, "nsswitch.conf"))
	if err != nil {
		return []string{"files"}
	}
	for line := range strings.Lines(string(b)) {
		line, _, _ = strings.Cut(line, "#")
		name, list, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok || strings.TrimSpace(name) != db {
			continue
		}
		var out []string
		inAction := false
		for _, s := range strings.Fields(list) {
			inAction = inAction || strings.HasPrefix(s, "[")
			if !inAction {
				out = append(out, s)
			}
			inAction = inAction && !strings.HasSuffix(s, "]")
		}
		return out
	}
	return []string{"files"}
}

// ask runs getent, bounded. Names were checked by the grammar or come from the
// configuration; "--" keeps them from being options all the same.
func (d *Directory) ask(ctx context.Context, db, key string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, getentLimit)
	defer cancel()
	out, err := d.Getent(ctx, db, "--", key)
	if err != nil {
		if errors.Is(err, ErrNotFound) {
			return "", ErrNotFound
		}
		return "", fmt.Errorf("ask for %s entry: %w", db, err)
	}
	line, _, _ := bytes.Cut(out, []byte("\n"))
	return string(line), nil
}

func (d *Directory) getentPasswd(ctx context.Context, key string) (passwd, error) {
	line, err := d.ask(ctx, "passwd", key)
	if err != nil {
		return passwd{}, err
	}
	e, ok := parsePasswd(line)
	if !ok {
		return passwd{}, errors.New("ask for passwd entry: answer is not a passwd line")
	}
	return e, nil
}

func (d *Directory) getentGroup(ctx context.Context, name string) (group, error) {
	line, err := d.ask(ctx, "group", name)
	if err != nil {
		return group{}, err
	}
	g, ok := parseGroup(line)
	if !ok || g.name != name {
		return group{}, errors.New("ask for group entry: answer is not that group")
	}
	return g, nil
}

func (d *Directory) getentInitgroups(ctx context.Context, name string) ([]uint32, error) {
	line, err := d.ask(ctx, "initgroups", name)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	f := strings.Fields(line)
	if len(f) == 0 || f[0] != name {
		return nil, errors.New("ask for initgroups entry: answer is not of that account")
	}
	var gids []uint32
	for _, s := range f[1:] {
		gid, err := parseID(s)
		if err != nil {
			return nil, errors.New("ask for initgroups entry: answer holds no group id")
		}
		gids = append(gids, gid)
	}
	return gids, nil
}

// exists reports whether a file is there, whatever it is.
func exists(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
