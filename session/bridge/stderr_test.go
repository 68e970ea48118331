package bridge

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

func drained(now func() time.Time, text string) (d *stderrDrain, log string) {
	var out bytes.Buffer
	d = &stderrDrain{log: logTo(&out), now: now}
	d.run(strings.NewReader(text))
	return d, out.String()
}

func TestStderrLines(t *testing.T) {
	_, log := drained(time.Now, "one\ntwo\rthree\r\n\n  \nfour\x1b[2J\x00\xff\u202e ü\tlast")
	want := `{"level":"info","stderr":"one","message":"worker says"}
{"level":"info","stderr":"two","message":"worker says"}
{"level":"info","stderr":"three","message":"worker says"}
{"level":"info","stderr":"four\\u001b[2J\\u0000\\xff\\u202e ü last","message":"worker says"}
`
	if log != want {
		t.Errorf("got %s", log)
	}
}

func TestStderrLongLinesAreCut(t *testing.T) {
	_, log := drained(time.Now, strings.Repeat("x", 2*stderrLine+10))
	if n := strings.Count(log, "\n"); n != 3 {
		t.Errorf("%d log lines", n)
	}
}

func TestStderrRate(t *testing.T) {
	clock := time.Unix(0, 0)
	line := strings.Repeat("x", 1023) + "\n"
	var out bytes.Buffer
	d := &stderrDrain{log: logTo(&out), now: func() time.Time { return clock }}
	d.tokens, d.at = stderrRate, clock
	d.split([]byte(strings.Repeat(line, 1000)))
	if n := strings.Count(out.String(), "\n"); n != 64 {
		t.Errorf("%d of 1000 lines at once", n)
	}
	clock = clock.Add(time.Second / 2)
	out.Reset()
	d.split([]byte(strings.Repeat(line, 1000)))
	if n := strings.Count(out.String(), "\n"); n != 32 {
		t.Errorf("%d lines half a second later", n)
	}
	if want := `"skipped_bytes":957528`; !strings.Contains(out.String(), want) { // (1000-64)*1023
		t.Errorf("the gap is not told: %.200s", out.String())
	}
}

func TestStderrTail(t *testing.T) {
	d, _ := drained(time.Now, "short")
	if got := string(d.tail.last(100)); got != "short" {
		t.Errorf("got %q", got)
	}
	if got := cap(d.tail.b); got > 64 {
		t.Errorf("%d bytes are held for a short tail", got)
	}
	d, _ = drained(time.Now, strings.Repeat("old\n", 100_000)+"the end")
	if got := string(d.tail.last(11)); got != "old\nthe end" || len(d.tail.b) != tailBytes {
		t.Errorf("got %q, %d bytes", got, len(d.tail.b))
	}
	var r ring
	r.write([]byte(strings.Repeat("x", 3*tailBytes) + "yz"))
	r.write([]byte("!"))
	if got := string(r.last(4)); got != "xyz!" || len(r.b) != tailBytes {
		t.Errorf("got %q", got)
	}
}

// logTo makes a logger that writes to out.
func logTo(out *bytes.Buffer) func() *zerolog.Logger {
	l := zerolog.New(out)
	return func() *zerolog.Logger { return &l }
}

func noLog() *zerolog.Logger { return new(zerolog.Nop()) }
