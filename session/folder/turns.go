package folder

import (
	"fmt"
	"sync"
	"time"
)

const (
	// Limit is how long anybody waits for a folder's file system.
	Limit = 3 * time.Second
	// MaxLate is how many folders may be waited for beyond that, each by a thread in the
	// kernel that nobody can call back. With more of them no folder is looked at.
	MaxLate = 128
)

// Silent is a folder that does not answer, or, with Others, one that is not looked at
// because that many others do not.
type Silent struct {
	Path   string
	Others int
}

func (e *Silent) Error() string {
	if e.Others > 0 {
		return fmt.Sprintf("%s is not looked at: %d other folders do not answer", e.Path, e.Others)
	}
	return fmt.Sprintf("%s does not answer", e.Path)
}

// Turns has the looks at one folder follow one another, so that no more than one thread
// hangs for it. The zero value is ready for use.
type Turns struct {
	mu    sync.Mutex // guards what follows
	taken map[string]*Turn
	late  int
}

// Turn is the right to look at a folder. It lasts until the folder has answered.
type Turn struct {
	t    *Turns
	path string
	over chan struct{} // closed at the end; nil: nobody waits for it
	late bool
}

// Take waits for the turn of a folder, at most Limit, and not at all when the one before
// is late already. The error is a *Silent.
func (t *Turns) Take(path string) (*Turn, error) {
	var limit <-chan time.Time
	for {
		u, over, err := t.try(path)
		if u != nil || err != nil {
			return u, err
		}
		if limit == nil {
			limit = time.After(Limit)
		}
		select {
		case <-over:
		case <-limit:
			return nil, &Silent{Path: path}
		}
	}
}

// try takes the turn or returns what is closed at the end of the one before.
func (t *Turns) try(path string) (*Turn, <-chan struct{}, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.taken[path]
	switch {
	case before != nil && before.late:
		return nil, nil, &Silent{Path: path}
	case before != nil:
		if before.over == nil {
			before.over = make(chan struct{})
		}
		return nil, before.over, nil
	case t.late >= MaxLate:
		return nil, nil, &Silent{path, t.late}
	}
	if t.taken == nil {
		t.taken = map[string]*Turn{}
	}
	u := &Turn{t: t, path: path}
	t.taken[path] = u
	return u, nil, nil
}

// Done gives the turn back: the folder has answered.
func (u *Turn) Done() {
	u.t.mu.Lock()
	defer u.t.mu.Unlock()
	delete(u.t.taken, u.path)
	if u.late {
		u.t.late--
	}
	if u.over != nil {
		close(u.over)
	}
}

// Late says that nobody waits for the answer any more, and returns the error for it.
func (u *Turn) Late() error {
	u.t.mu.Lock()
	defer u.t.mu.Unlock()
	if u.t.taken[u.path] == u && !u.late {
		u.late = true
		u.t.late++
	}
	return &Silent{Path: u.path}
}

// Do calls look, which may hang, when it is the folder's turn, in a goroutine of its own.
// What look does not return within Limit is lost; the error is a *Silent then, as when
// there is no turn.
func Do[T any](t *Turns, path string, look func() (T, error)) (T, error) {
	type answer struct {
		v   T
		err error
	}
	var none T
	u, err := t.Take(path)
	if err != nil {
		return none, err
	}
	got := make(chan answer, 1)
	go func() {
		v, err := look()
		u.Done()
		got <- answer{v, err}
	}()
	limit := time.NewTimer(Limit)
	defer limit.Stop()
	select {
	case a := <-got:
		return a.v, a.err
	case <-limit.C:
		return none, u.Late()
	}
}
