package worker

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"

	"gatehouse/session/settings"
)

// maxSettings bounds the settings document; the monitor's are a few KiB.
const maxSettings = 1 << 20

// ReadSettings reads the settings from descriptor fd. It returns nil without an
// error when fd is not open or is anything else than a sealed memory file: then
// nobody handed settings over and the worker runs alone. A sealed memory file
// that does not hold valid settings is an error.
//
// The seals are what is checked, because the descriptor number proves nothing: a
// shell may have left any file open on it, and Go's runtime may have used it.
func ReadSettings(fd int) (*settings.Settings, error) {
	const want = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil || seals&want != want {
		return nil, nil
	}
	unix.CloseOnExec(fd)
	f := os.NewFile(uintptr(fd), "settings")
	defer f.Close()
	// The offset is whatever the writer left.
	b, err := io.ReadAll(io.NewSectionReader(f, 0, maxSettings+1))
	if err != nil {
		return nil, fmt.Errorf("read settings on descriptor %d: %w", fd, err)
	}
	return DecodeSettings(b)
}

// DecodeSettings decodes a settings document strictly: unknown and repeated
// members, a wrong type and anything behind the object are errors.
func DecodeSettings(b []byte) (*settings.Settings, error) {
	if len(b) > maxSettings {
		return nil, fmt.Errorf("decode settings: more than %d bytes", maxSettings)
	}
	if len(bytes.TrimSpace(b)) == 0 {
		return nil, errors.New("decode settings: the document is empty")
	}
	var s *settings.Settings
	if err := json.Unmarshal(b, &s, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("decode settings: %w", err)
	}
	if s == nil || s.Account == "" || s.Server == "" {
		return nil, errors.New("decode settings: account and server must be set")
	}
	return s, nil
}
