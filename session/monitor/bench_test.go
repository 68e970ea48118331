package monitor

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"gatehouse/auth/authtest"
	"gatehouse/session/spawn"
)

// benchRig is a monitor with caps that are never met.
func benchRig(b *testing.B, change func(*rig)) (*spawn.Client, string) {
	r := newRig(b, `exit 0`)
	r.cfg.MaxWorkers, r.cfg.MaxPerPrincipal, r.cfg.MaxPerToken, r.cfg.SpawnRate, r.cfg.SpawnBurst = 64, 64, 64, 1e6, 1000000
	if change != nil {
		change(r)
	}
	r.start()
	time.Sleep(2100 * time.Millisecond) // account files as fresh as the tests' accounts are not kept
	return r.front(), r.token("alice")
}

// spawnOnce is one worker from SPAWN to EXITED, and the time until SPAWNED.
func spawnOnce(b *testing.B, c *spawn.Client, tok string) (started time.Duration) {
	begin := time.Now()
	w, err := c.Spawn(context.Background(), spawn.Request{Token: tok})
	if err != nil {
		b.Fatal(err)
	}
	started = time.Since(begin)
	<-w.Exited()
	for _, f := range []*os.File{w.Stdin(), w.Stdout(), w.Stderr()} {
		f.Close()
	}
	return started
}

// bareOnce is the same program by fork, exec and wait alone, with three pipes, and
// the time until it was executed.
func bareOnce(b *testing.B) (started time.Duration) {
	begin := time.Now()
	c := exec.Command("/bin/sh", "-c", "exit 0")
	c.Env, c.Dir = []string{"PATH=/bin:/usr/bin"}, "/"
	for _, step := range []func() error{
		func() error { _, err := c.StdinPipe(); return err },
		func() error { _, err := c.StdoutPipe(); return err },
		func() error { _, err := c.StderrPipe(); return err },
		c.Start,
	} {
		if err := step(); err != nil {
			b.Fatal(err)
		}
	}
	started = time.Since(begin)
	if err := c.Wait(); err != nil {
		b.Fatal(err)
	}
	return started
}

// cpuTime is what this process and its ended children have used.
func cpuTime() (sum time.Duration) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		syscall.Getrusage(who, &u)
		sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return sum
}

// BenchmarkSpawn is one worker from SPAWN to EXITED: token, account, world, process,
// end of the tree. The metric started-ns/op is the part until SPAWNED; cpu-ns/op is that
// of all, the worker too.
func BenchmarkSpawn(b *testing.B) {
	c, tok := benchRig(b, nil)
	var started time.Duration
	before := cpuTime()
	for b.Loop() {
		started += spawnOnce(b, c, tok)
	}
	b.ReportMetric(float64((cpuTime()-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(started.Nanoseconds())/float64(b.N), "started-ns/op")
}

// BenchmarkBareSpawn is what BenchmarkSpawn is compared with.
func BenchmarkBareSpawn(b *testing.B) {
	before := cpuTime()
	for b.Loop() {
		bareOnce(b)
	}
	b.ReportMetric(float64((cpuTime()-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
}

// BenchmarkSpawnBesideBare does both by turns, so that a machine with other work
// slows both down, and reports medians: until the worker is there, and until it is
// gone, each as a ratio to the bare one's.
func BenchmarkSpawnBesideBare(b *testing.B) {
	c, tok := benchRig(b, nil)
	var ours, bare, oursAll, bareAll []time.Duration
	for b.Loop() {
		begin := time.Now()
		bare = append(bare, bareOnce(b))
		bareAll = append(bareAll, time.Since(begin))
		begin = time.Now()
		ours = append(ours, spawnOnce(b, c, tok))
		oursAll = append(oursAll, time.Since(begin))
	}
	median := func(d []time.Duration) float64 {
		slices.Sort(d)
		return float64(d[len(d)/2].Nanoseconds())
	}
	b.ReportMetric(median(bare), "bare-ns")
	b.ReportMetric(median(ours), "started-ns")
	b.ReportMetric(median(ours)/median(bare), "started/bare")
	b.ReportMetric(median(oursAll)/median(bareAll), "gone/bare")
}

// BenchmarkRenew is a lease that moves, from the frame to the answer: token and account.
// cpu-ns/op has the front end's half of the conversation in it.
func BenchmarkRenew(b *testing.B) {
	r := newRig(b, `echo ready; read x`).start()
	now := time.Now().Unix()
	w := r.spawn(r.front(), r.token("alice", authtest.Claim("exp", now+100)))
	tokens := make([]string, b.N)
	for i := range tokens {
		tokens[i] = r.token("alice", authtest.Claim("exp", now+101+int64(i)))
	}
	time.Sleep(2100 * time.Millisecond) // as in benchRig
	b.ReportAllocs()
	b.ResetTimer()
	before := cpuTime()
	for _, t := range tokens {
		if err := renew(w, t); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((cpuTime()-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
}
