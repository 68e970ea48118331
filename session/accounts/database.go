package accounts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

// passwd is a line of passwd(5).
type passwd struct {
	name     string
	uid, gid uint32
	home     string
	shell    string
	password password
	local    bool // from the file, not from another source
}

// group is a line of group(5).
type group struct {
	name    string
	gid     uint32
	members []string
}

// shadow is what of a line of shadow(5) is used.
type shadow struct {
	password password
	expire   string // days since 1970, "": never
}

// password is all that a password field has to say; the password itself is not kept.
type password uint8

const (
	passwordNone     password = iota // anything else
	passwordLocked                   // "!" before something
	passwordInShadow                 // "x"
)

// parsePassword: "!" or "*" alone means that there is no password, which is how
// accounts for single sign-on look; "!" before anything else was put there to lock.
func parsePassword(field string) password {
	rest := strings.TrimLeft(field, "!")
	switch {
	case field == "x":
		return passwordInShadow
	case rest != field && rest != "":
		return passwordLocked
	}
	return passwordNone
}

// byName is getpwnam(3).
func (v *view) byName(ctx context.Context, name string) (passwd, error) {
	if e, ok := v.passwd.byName[name]; ok {
		return e, nil
	}
	return v.elsewhere(ctx, name)
}

// byUID is getpwuid(3).
func (v *view) byUID(ctx context.Context, uid uint32) (passwd, error) {
	if e, ok := v.passwd.byUID[uid]; ok {
		return e, nil
	}
	return v.elsewhere(ctx, strconv.FormatUint(uint64(uid), 10))
}

// elsewhere asks the other sources for what is not in the file.
func (v *view) elsewhere(ctx context.Context, key string) (passwd, error) {
	if !v.others("passwd") {
		return passwd{}, ErrNotFound
	}
	return v.d.getentPasswd(ctx, key)
}

// groupsOf returns the groups that name is a member of, its own aside.
func (v *view) groupsOf(ctx context.Context, e passwd) ([]uint32, error) {
	gids := slices.Clone(v.group.of[e.name])
	// Beside files, "systemd" knows only accounts that it made itself.
	if v.others("group") && !(e.local && v.onlySystemd("group")) {
		more, err := v.d.getentInitgroups(ctx, e.name)
		if err != nil {
			return nil, err
		}
		gids = append(gids, more...)
	}
	return gids, nil
}

// gidOf returns the number of a group, and false when there is none.
func (v *view) gidOf(ctx context.Context, name string) (uint32, bool, error) {
	if gid, ok := v.group.gid[name]; ok {
		return gid, true, nil
	}
	if !v.others("group") || v.onlySystemd("group") {
		return 0, false, nil
	}
	g, err := v.d.getentGroup(ctx, name)
	if errors.Is(err, ErrNotFound) {
		return 0, false, nil
	}
	return g.gid, err == nil, err
}

func parsePasswdFile(text string) *passwdFile {
	f := &passwdFile{byName: map[string]passwd{}, byUID: map[uint32]passwd{}}
	for line := range strings.SplitSeq(text, "\n") {
		e, ok := parsePasswd(line)
		if !ok {
			continue
		}
		e.local = true
		if _, twice := f.byName[e.name]; !twice {
			f.byName[e.name] = e
		}
		if _, twice := f.byUID[e.uid]; !twice {
			f.byUID[e.uid] = e
		}
	}
	return f
}

func parseGroupFile(text string) *groupFile {
	f := &groupFile{gid: map[string]uint32{}, of: map[string][]uint32{}}
	for line := range strings.SplitSeq(text, "\n") {
		g, ok := parseGroup(line)
		if !ok {
			continue
		}
		if _, twice := f.gid[g.name]; !twice {
			f.gid[g.name] = g.gid
		}
		for _, member := range g.members {
			f.of[member] = append(f.of[member], g.gid)
		}
	}
	return f
}

func parseShadowFile(text string) *shadowFile {
	f := shadowFile{}
	for line := range strings.SplitSeq(text, "\n") {
		field := strings.Split(line, ":")
		if len(field) != 9 {
			continue
		}
		if _, twice := f[field[0]]; !twice {
			f[strings.Clone(field[0])] = shadow{password: parsePassword(field[1]), expire: strings.Clone(field[7])}
		}
	}
	return &f
}

// parsePasswd keeps nothing of the line but the fields that are used: a password in
// it is forgotten.
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
	return passwd{name: strings.Clone(f[0]), password: parsePassword(f[1]), uid: uid, gid: gid, home: strings.Clone(f[5]), shell: strings.Clone(f[6])}, true
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
func (v *view) others(db string) bool {
	if v.d.Getent == nil {
		return false
	}
	return slices.ContainsFunc(v.sources(db), func(s string) bool { return s != "files" && s != "compat" })
}

// onlySystemd reports whether systemd is the only source beside files.
func (v *view) onlySystemd(db string) bool {
	return !slices.ContainsFunc(v.sources(db), func(s string) bool {
		return s != "files" && s != "compat" && s != "systemd"
	})
}

// parseNSSFile leaves actions such as [NOTFOUND=return] out.
func parseNSSFile(text string) *nssFile {
	f := nssFile{}
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		name, list, ok := strings.Cut(strings.TrimSpace(line), ":")
		name = strings.TrimSpace(name)
		if _, twice := f[name]; !ok || twice {
			continue
		}
		f[name] = nil
		inAction := false
		for _, s := range strings.Fields(list) {
			inAction = inAction || strings.HasPrefix(s, "[")
			if !inAction {
				f[name] = append(f[name], s)
			}
			inAction = inAction && !strings.HasSuffix(s, "]")
		}
	}
	return &f
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
