package conf

import "path/filepath"

// guard refuses a file that decides over others (configuration, accounts, keys,
// programs) when someone else could change it: it belongs to root or to the
// account that the server runs as, and nobody else may write to it. When root
// starts the server the same holds for every folder above it.
func (l *loader) guard(key string, i int, path string) {
	if err := l.c.host.exposed(path); err != nil {
		l.deny(key, i, "others could change this file: %v", err)
	}
}

// exposed says who else could change the file. That it can't be read, or is not
// there, is for others to report.
func (h *Host) exposed(path string) error {
	if _, err := h.Stat(path); err != nil {
		return nil
	}
	return h.Trust(path, h.EUID, h.EUID == 0)
}

// closed is the file, or the first folder above it, that an account without
// privilege can't use, or "". The path has no symbolic links.
func (h *Host) closed(file string) string {
	for p := file; ; p = filepath.Dir(p) {
		if st, err := h.Stat(p); err != nil || st.Mode.Perm()&0o001 == 0 {
			return p
		}
		if p == "/" {
			return ""
		}
	}
}
