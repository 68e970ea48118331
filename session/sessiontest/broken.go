package sessiontest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// Echo is a worker that behaves.
func Echo(p *Process) int { return Server{}.Run(p) }

// DiesAtStart writes a complaint to stderr and exits with 3.
func DiesAtStart(p *Process) int {
	fmt.Fprintln(p.Err, "missing API_KEY")
	return 3
}

// PrintsFirst prints text to stdout and goes on as Echo.
func PrintsFirst(text string) Func {
	return func(p *Process) int {
		fmt.Fprintln(p.Out, text)
		return Echo(p)
	}
}

// NeverAnswers reads and says nothing.
func NeverAnswers(p *Process) int {
	_, _ = io.Copy(io.Discard, p.In)
	return 0
}

// IgnoresStdin reads nothing and lives until it is killed.
func IgnoresStdin(p *Process) int {
	<-p.Killed
	return -1
}

// IgnoresEOF behaves but does not end when its input does.
func IgnoresEOF(p *Process) int {
	Echo(p)
	<-p.Killed
	return -1
}

// StopsReading does the handshake and reads nothing more.
func StopsReading(p *Process) int {
	one := &oneLine{r: p.In}
	Server{}.Run(&Process{In: one, Out: p.Out, Err: p.Err, Killed: p.Killed, Request: p.Request})
	<-p.Killed
	return -1
}

// oneLine ends after the first newline.
type oneLine struct {
	r    io.ReadCloser
	done bool
}

func (o *oneLine) Read(b []byte) (int, error) {
	if o.done || len(b) == 0 {
		return 0, io.EOF
	}
	n, err := o.r.Read(b[:1])
	o.done = n == 1 && b[0] == '\n'
	return n, err
}

func (o *oneLine) Close() error { return nil }

// RefusesInitialize answers initialize with an error.
func RefusesInitialize(p *Process) int {
	return answerFirst(p, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"unsupported"}}`)
}

// AnswersWithAnotherID answers initialize under an id that it made up, as a
// recorded answer would.
func AnswersWithAnotherID(p *Process) int {
	return answerFirst(p, `{"jsonrpc":"2.0","id":%s1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"x","version":"1"}}}`)
}

// WritesBack writes what it reads, as cat(1) would.
func WritesBack(p *Process) int {
	_, _ = io.Copy(p.Out, p.In)
	return 0
}

// StderrFirst writes n bytes to stderr before it behaves.
func StderrFirst(n int, lines bool) Func {
	return func(p *Process) int {
		_, _ = io.WriteString(p.Err, noise(n, lines))
		return Echo(p)
	}
}

// answerFirst answers the first request with the format, given its id, and then
// reads on in silence.
func answerFirst(p *Process, format string) int {
	in := bufio.NewReader(p.In)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return 1
	}
	var m message
	if err := json.Unmarshal(line, &m); err != nil {
		return 1
	}
	fmt.Fprintf(p.Out, format+"\n", m.ID)
	_, _ = io.Copy(io.Discard, in)
	return 0
}
