package bridge

import (
	"bytes"
	"slices"
)

// maxTasks is how many tasks are remembered.
const maxTasks = 64

// tasks are calls whose answer said that what was asked for goes on as a task. Its
// progress is reported with the token of the call until its end (MCP 2025-11-25,
// basic/utilities/progress), which is not known here: the oldest make room.
type tasks []task

type task struct {
	id    uint64 // ours, of the call
	token []byte // the client's
}

func (t *tasks) add(id uint64, token []byte) {
	if len(*t) == maxTasks {
		*t = slices.Delete(*t, 0, 1)
	}
	*t = append(*t, task{id, bytes.Clone(token)})
}

// token is the client's progress token of a task; nil: there is no such task.
func (t tasks) token(id uint64) []byte {
	if i := slices.IndexFunc(t, func(t task) bool { return t.id == id }); i >= 0 {
		return t[i].token
	}
	return nil
}
