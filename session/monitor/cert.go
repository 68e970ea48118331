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

// watchCert hands certificate and key on as soon as one of the files has changed and
// then both have stayed the same for one look. The front end keeps what it has when the two do
// not fit.
func (m *Monitor) watchCert(ctx context.Context, every time.Duration) {
	if m.cfg.TLSCert == "" {
		return
	}
	type pair struct{ cert, key filestate.State }
	look := func() (p pair, ok bool) {
		var err1, err2 error
		p.cert, err1 = filestate.Of(m.cfg.TLSCert)
		p.key, err2 = filestate.Of(m.cfg.TLSKey)
		return p, err1 == nil && err2 == nil
	}
	handed, _ := look()
	last := handed
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now, ok := look()
		if ok && now == last && now != handed {
			m.sendCert()
			handed = now
		}
		last = now
	}
}

// sendCert hands certificate and key to the front end that runs.
func (m *Monitor) sendCert() {
	m.mu.Lock()
	a := m.attendant
	m.mu.Unlock()
	if m.cfg.TLSCert == "" || a == nil {
		return
	}
	cert, key, err := m.openCert()
	if err != nil {
		m.log.Error().Err(err).Msg("new certificate is not used")
		return
	}
	a.send(outgoing{frame: spawn.Cert{}, files: []*os.File{cert, key}})
	m.log.Info().Msg("certificate and key handed to the front end")
}
