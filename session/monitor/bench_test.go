package monitor

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"gatehouse/session/spawn"
)

// BenchmarkSpawn is one worker from SPAWN to EXITED: token, account, world, process,
// end of the tree. The metric started-ns/op is the part until SPAWNED.
func BenchmarkSpawn(b *testing.B) {
	r := newRig(b, `exit 0`)
	r.cfg.MaxWorkers, r.cfg.MaxPerPrincipal, r.cfg.MaxPerToken, r.cfg.SpawnRate, r.cfg.SpawnBurst = 64, 64, 64, 1e6, 1000000
	r.start()
	c := r.front()
	tok := r.token("alice")
	b.ResetTimer()
	var started time.Duration
	for b.Loop() {
		begin := time.Now()
		w, err := c.Spawn(context.Background(), spawn.Request{Token: tok})
		if err != nil {
			b.Fatal(err)
		}
		started += time.Since(begin)
		<-w.Exited()
		for _, f := range []*os.File{w.Stdin(), w.Stdout(), w.Stderr()} {
			f.Close()
		}
	}
	b.ReportMetric(float64(started.Nanoseconds())/float64(b.N), "started-ns/op")
}

// BenchmarkBareSpawn is what BenchmarkSpawn is compared with: the same program by
// fork, exec and wait alone, with three pipes.
func BenchmarkBareSpawn(b *testing.B) {
	for b.Loop() {
		c := exec.Command("/bin/sh", "-c", "exit 0")
		for _, pipe := range []func() error{
			func() error { _, err := c.StdinPipe(); return err },
			func() error { _, err := c.StdoutPipe(); return err },
			func() error { _, err := c.StderrPipe(); return err },
			c.Start, c.Wait,
		} {
			if err := pipe(); err != nil {
				b.Fatal(err)
			}
		}
	}
}
