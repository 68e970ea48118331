package monitor

import (
	"time"

	"gatehouse/session/spawn"
)

// What a front end may take to describe its sessions, and how many there can be.
const (
	surveyLimit = 2 * time.Second
	maxSurvey   = 200000
)

// survey is a question to the front end under way, guarded by the attendant's lock.
type survey struct {
	seq   uint64
	found map[uint32]spawn.SessionStatus // by pid
	done  chan struct{}                  // nil: nobody asks
}

// status takes what the front end says about one session. Nothing depends on it but
// what an operator is shown. An answer that nobody waits for any more is no fault.
func (a *attendant) status(f spawn.Frame) error {
	s := f.(spawn.SessionStatus)
	a.mu.Lock()
	defer a.mu.Unlock()
	q := &a.survey
	switch {
	case q.done == nil || s.Seq != q.seq:
	case s.PID == 0:
		close(q.done)
		q.done = nil
	case len(q.found) < maxSurvey:
		q.found[s.PID] = s
	}
	return nil
}

// ask asks the front end how its sessions are: by the worker's pid. One that does not
// answer in time has its last word so far.
func (a *attendant) ask() map[uint32]spawn.SessionStatus {
	a.asking.Lock()
	defer a.asking.Unlock()
	a.mu.Lock()
	done := make(chan struct{})
	found := map[uint32]spawn.SessionStatus{}
	a.survey = survey{seq: a.survey.seq + 1, found: found, done: done}
	seq := a.survey.seq
	a.mu.Unlock()
	a.send(outgoing{frame: spawn.Report{Seq: seq}})
	t := time.NewTimer(surveyLimit)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	case <-a.over:
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.survey.seq == seq {
		a.survey.done, a.survey.found = nil, nil
	}
	out := make(map[uint32]spawn.SessionStatus, len(found))
	for pid, s := range found {
		out[pid] = s
	}
	return out
}
