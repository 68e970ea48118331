package toolsets

import (
	"context"
	"errors"
	"fmt"
)

// Kind classifies a failed call for programs.
type Kind string

// The closed list of kinds.
const (
	CompileError  Kind = "compileError"  // Go code that does not compile
	Refused       Kind = "refused"       // not allowed now: read first, no right to write
	NotFound      Kind = "notFound"      // nothing of that name, or several
	InvalidParams Kind = "invalidParams" // an argument is missing, unknown or malformed
	Conflict      Kind = "conflict"      // somebody else changed the same thing
	TestFailure   Kind = "testFailure"   // a test failed
	Timeout       Kind = "timeout"       // a limit on time was reached, or the call was cancelled
	Other         Kind = "other"
)

// Kinds returns all kinds.
func Kinds() []Kind {
	return []Kind{CompileError, Refused, NotFound, InvalidParams, Conflict, TestFailure, Timeout, Other}
}

// Failure is a failed call. Text says what happened and what to do next; Data,
// when not nil, becomes the member "details" of the structured error.
type Failure struct {
	Kind Kind
	Text string
	Data any
}

func (f *Failure) Error() string { return f.Text }

// Failf returns a failure of the given kind.
func Failf(kind Kind, format string, args ...any) *Failure {
	return &Failure{Kind: kind, Text: fmt.Sprintf(format, args...)}
}

// ErrInterrupted is the cause of a call's context when the worker was told to
// give the call up (SIGINT).
var ErrInterrupted = errors.New("interrupted")

// asFailure turns any error into a failure.
func asFailure(ctx context.Context, err error) *Failure {
	var f *Failure
	switch {
	case errors.As(err, &f):
		return f
	case ctx.Err() != nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return Failf(Timeout, "the call was given up before it had finished (%v); what it had started was stopped", cause(ctx, err))
	}
	return Failf(Other, "%v", err)
}

func cause(ctx context.Context, err error) error {
	if c := context.Cause(ctx); c != nil {
		return c
	}
	return err
}

// errorBody is structuredContent of a failed call.
type errorBody struct {
	Error errorInfo `json:"error"`
}

type errorInfo struct {
	Kind    Kind   `json:"kind"`
	Message string `json:"message"`
	Details any    `json:"details,omitempty"`
}
