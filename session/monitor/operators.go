package monitor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/session/spawn"
)

// Bounds of a conversation with an operator: one request of one line, and its answer.
const (
	maxRequest     = 4 << 10
	operatorLimit  = 10 * time.Second
	operatorsAtOne = 8 // conversations at a time
	acceptPause    = time.Second
)

// Request is what an operator asks for. Op is "list" or "end"; the others, of which
// "end" needs one at least, narrow it down to workers that fit all.
type Request struct {
	Op      string `json:"op"`
	Account string `json:"account,omitempty"`
	Subject string `json:"subject,omitempty"`
	Issuer  string `json:"issuer,omitempty"`
	Client  string `json:"client,omitempty"`
	// ID is a worker's number ("w12") or the label of its session.
	ID string `json:"id,omitempty"`
}

// Worker is one line of the answer to "list". Idle, Calls, Stream and Session are the
// front end's word, all others the monitor's.
type Worker struct {
	ID      string    `json:"id"`
	Account string    `json:"account"`
	UID     uint32    `json:"uid"`
	Issuer  string    `json:"issuer,omitempty"`
	Subject string    `json:"subject,omitempty"`
	Client  string    `json:"client,omitempty"`
	Server  string    `json:"server"`
	PID     int       `json:"pid"`
	Since   time.Time `json:"since"`
	Lease   time.Time `json:"lease,omitzero"` // the zero time: no end
	Memory  int64     `json:"memory"`         // bytes, resident
	Ending  bool      `json:"ending,omitempty"`
	Warm    bool      `json:"warm,omitempty"` // waits for a session, and was given to none
	Known   bool      `json:"known"`          // to the front end: the fields below are meaningful
	Session string    `json:"session,omitempty"`
	IdleMS  uint64    `json:"idle_ms,omitempty"`
	Calls   uint32    `json:"calls,omitempty"`
	Stream  bool      `json:"stream,omitempty"`
}

// Answer ends the answer to every request.
type Answer struct {
	Done  int    `json:"done"` // workers listed, or being ended
	Error string `json:"error,omitempty"`
}

// serveOperators answers whoever the file permissions of the socket let in, until it
// is closed.
func (m *Monitor) serveOperators(ln *net.UnixListener) {
	slots := make(chan struct{}, operatorsAtOne)
	for {
		c, err := ln.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // there may be descriptors again in a moment
			m.log.Error().Err(err).Msg("operators' socket")
			time.Sleep(acceptPause)
			continue
		}
		slots <- struct{}{}
		go func() {
			defer func() { <-slots }()
			defer c.Close()
			m.serveOperator(c)
		}()
	}
}

// serveOperator takes one request and answers it.
func (m *Monitor) serveOperator(c *net.UnixConn) {
	c.SetDeadline(time.Now().Add(operatorLimit))
	out := json.NewEncoder(c)
	q, err := readRequest(c)
	if err != nil {
		out.Encode(Answer{Error: err.Error()})
		return
	}
	list := m.workersFor(q)
	if q.Op == "list" {
		for _, w := range list {
			if out.Encode(w.Worker) != nil {
				return
			}
		}
	} else {
		uid := peerUID(c)
		for _, w := range list {
			m.log.Warn().Str("id", w.ID).Str("account", w.Account).Int("pid", w.PID).Int64("operator_uid", uid).Msg("ended by an operator")
			w.lease.stop("ended by an operator", ladder{0, m.cfg.KillGraceHard})
		}
	}
	out.Encode(Answer{Done: len(list)})
}

// readRequest reads one line strictly.
func readRequest(r io.Reader) (q Request, err error) {
	b := make([]byte, 0, maxRequest)
	for !bytes.ContainsRune(b, '\n') {
		if len(b) == cap(b) {
			return q, errors.New("the request is longer than 4 KiB")
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err != nil {
			return q, errors.New("the request is not one whole line")
		}
	}
	line, rest, _ := bytes.Cut(b, []byte("\n"))
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	switch err := d.Decode(&q); {
	case err != nil || d.More() || len(rest) > 0:
		return q, errors.New("the request is not one JSON object that this version knows")
	case q.Op == "end" && q.Account+q.Subject+q.Issuer+q.Client+q.ID == "":
		return q, errors.New("end what? name an account, a subject, an issuer, a client or an id")
	case q.Op != "list" && q.Op != "end":
		return q, errors.New("an operator can list and end")
	}
	return q, nil
}

// listed is a worker as an operator sees it, and its lease.
type listed struct {
	Worker
	lease *lease
}

// workersFor lists the workers that a request is about, the oldest first.
func (m *Monitor) workersFor(q Request) (out []listed) {
	told := map[uint32]spawn.SessionStatus{}
	m.mu.Lock()
	a := m.attendant
	m.mu.Unlock()
	if a != nil {
		select {
		case <-a.ready:
			told = a.ask()
		default:
		}
	}
	m.leases.each(func(l *lease) {
		w, ok := m.describe(l)
		if !ok {
			return
		}
		if s, ok := told[uint32(w.PID)]; ok {
			w.Known, w.Session, w.IdleMS, w.Calls, w.Stream = true, s.Label, s.Idle, s.Calls, s.Stream
		}
		if q.fits(&w) {
			out = append(out, listed{w, l})
		}
	})
	slices.SortFunc(out, func(x, y listed) int { return x.Since.Compare(y.Since) })
	return out
}

func (q *Request) fits(w *Worker) bool {
	for _, f := range [][2]string{{q.Account, w.Account}, {q.Subject, w.Subject}, {q.Issuer, w.Issuer}, {q.Client, w.Client}} {
		if f[0] != "" && f[0] != f[1] {
			return false
		}
	}
	return q.ID == "" || q.ID == w.ID || q.ID == w.Session
}

// describe says what the monitor knows of a worker; false: it has not started.
func (m *Monitor) describe(l *lease) (Worker, bool) {
	l.table.mu.Lock()
	b, p := l.body, l.verdict.principal // a worker that is starting has no body
	w := Worker{
		ID: fmt.Sprintf("w%d", l.number), Account: string(l.assignment.account.Name), UID: l.assignment.account.UID,
		Issuer: string(p.Issuer), Subject: string(p.Subject), Client: string(p.Client),
		Server: m.cfg.Servers[l.server].Path, PID: l.pid, Since: l.since, Lease: l.until, Ending: l.state == leaseStopping, Warm: l.state == leaseWarm,
	}
	l.table.mu.Unlock()
	if t, ok := b.(interface{ memory() int64 }); ok {
		w.Memory = t.memory()
	}
	return w, b != nil
}

// peerUID is the user id of the other end, -1 if it can't be known.
func peerUID(c *net.UnixConn) int64 {
	uid := int64(-1)
	rc, err := c.SyscallConn()
	if err != nil {
		return uid
	}
	rc.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			uid = int64(cred.Uid)
		}
	})
	return uid
}

// openOperators takes over the socket that operators connect to; nil without one.
// The caller closes it, which takes its file away.
func (m *Monitor) openOperators() (*net.UnixListener, error) {
	if m.cfg.Operators == nil {
		return nil, nil
	}
	l, err := net.FileListener(m.cfg.Operators)
	if err != nil {
		return nil, fmt.Errorf("take over the operators' socket: %w", err)
	}
	ln, ok := l.(*net.UnixListener)
	if !ok {
		l.Close()
		return nil, errors.New("take over the operators' socket: it is no unix socket")
	}
	return ln, nil
}

// closeOperators ends the conversations to come.
func closeOperators(ln *net.UnixListener) {
	if ln == nil {
		return
	}
	path := ln.Addr().String()
	ln.Close()
	os.Remove(path)
}
