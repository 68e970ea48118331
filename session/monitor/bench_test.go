package monitor

import (
	"context"
	"os"
	"testing"

	"gatehouse/session/spawn"
)

// BenchmarkSpawn is one worker from SPAWN to EXITED: token, account, world, process,
// end of the tree.
func BenchmarkSpawn(b *testing.B) {
	r := newRig(b, `exit 0`)
	r.cfg.MaxWorkers, r.cfg.MaxPerPrincipal, r.cfg.MaxPerToken, r.cfg.SpawnRate, r.cfg.SpawnBurst = 64, 64, 64, 1e6, 1000000
	r.start()
	c := r.front()
	tok := r.token("alice")
	b.ResetTimer()
	for b.Loop() {
		w, err := c.Spawn(context.Background(), spawn.Request{Token: tok})
		if err != nil {
			b.Fatal(err)
		}
		<-w.Exited()
		for _, f := range []*os.File{w.Stdin(), w.Stdout(), w.Stderr()} {
			f.Close()
		}
	}
}
