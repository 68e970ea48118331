package spawn

import (
	"errors"
	"os"
	"testing"
	"time"
)

// TestWriteWaitsForRoom: until its deadline, which does not outlast it.
func TestWriteWaitsForRoom(t *testing.T) {
	a, b, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*Conn
	for i, f := range []*os.File{a, b} {
		if ends[i], err = NewConn(f, 0); err != nil {
			t.Fatal(err)
		}
		defer ends[i].Close()
	}
	from, to := ends[0], ends[1]
	frame := make([]byte, MaxFrame)
	n := 0
	for ; err == nil && n < 1000; n++ {
		err = from.Write(frame, nil, time.Now().Add(10*time.Millisecond))
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("write %d to somebody who does not read: %v", n, err)
	}
	if _, _, err := to.Read(); err != nil {
		t.Fatal(err)
	}
	if err := from.Write(frame, nil, time.Now().Add(time.Minute)); err != nil {
		t.Errorf("there is room, and an old deadline: %v", err)
	}
	go func() {
		for {
			if _, _, err := to.Read(); err != nil {
				return
			}
		}
	}()
	if err := from.Write(frame, nil, time.Now().Add(time.Minute)); err != nil {
		t.Errorf("there is room soon: %v", err)
	}
}
