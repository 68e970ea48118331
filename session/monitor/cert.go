package monitor

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/session/filestate"
	"gatehouse/session/spawn"
)

// certPoll is how often certificate and key are looked at.
const certPoll = 10 * time.Second

// openCert opens certificate and key for the front end, which can't open files.
func (m *Monitor) openCert() (cert, key *os.File, err error) {
	cert, err = openPlain(m.cfg.TLSCert)
	if err != nil {
		return nil, nil, fmt.Errorf("open certificate: %w", err)
	}
	key, err = openPlain(m.cfg.TLSKey)
	if err != nil {
		cert.Close()
		return nil, nil, fmt.Errorf("open key: %w", err)
	}
	return cert, key, nil
}

// openPlain opens a regular file; a FIFO must not hold us up.
func openPlain(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// certWatch follows certificate and key. It hands them on as soon as one of the files has
// changed and then both have stayed the same for one look, and tries again at each look
// for as long as that fails. The front end keeps what it has when the two do not fit.
type certWatch struct {
	m            *Monitor
	last, handed pairState
	told         string // the failure that the log has; "": none
}

// pairState is what certificate and key look like from outside.
type pairState struct{ cert, key filestate.State }

// newCertWatch begins with the files as they are.
func newCertWatch(m *Monitor) *certWatch {
	w := &certWatch{m: m}
	w.last, _ = w.state()
	w.handed = w.last
	return w
}

func (w *certWatch) state() (p pairState, err error) {
	if p.cert, err = filestate.Of(w.m.cfg.TLSCert); err == nil {
		p.key, err = filestate.Of(w.m.cfg.TLSKey)
	}
	return p, err
}

// run looks until ctx ends.
func (w *certWatch) run(ctx context.Context, every time.Duration) {
	if w.m.cfg.TLSCert == "" {
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			w.look()
		}
	}
}

// look looks once. A failure is logged once, until there is another or none.
func (w *certWatch) look() {
	now, err := w.state()
	if err == nil && now == w.last && now != w.handed {
		if err = w.m.sendCert(); err == nil {
			w.handed = now
		}
	}
	w.last = now
	if err == nil {
		w.told = ""
		return
	}
	if text := err.Error(); text != w.told {
		w.told = text
		w.m.log.Error().Err(err).Msg("new certificate is not used yet")
	}
}

// sendCert hands certificate and key to the front end that runs; the next one will
// open them for itself.
func (m *Monitor) sendCert() error {
	m.mu.Lock()
	a := m.attendant
	m.mu.Unlock()
	if m.cfg.TLSCert == "" || a == nil {
		return nil
	}
	cert, key, err := m.openCert()
	if err != nil {
		return err
	}
	a.send(outgoing{frame: spawn.Cert{}, files: []*os.File{cert, key}})
	m.log.Info().Msg("certificate and key handed to the front end")
	return nil
}
