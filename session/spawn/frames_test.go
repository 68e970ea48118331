package spawn

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

// examples are one frame of every type and its bytes, as docs/frames.md shows them.
var examples = []struct {
	frame Frame
	hex   string
}{
	{Hello{Version: 1}, "01 0001"},
	{SpawnRequest{Seq: 2, Server: 3, Token: "a.b.c"}, "02 0000000000000002 0003 0005 612e622e63"},
	{SpawnRequest{Seq: 2}, "02 0000000000000002 0000 0000"},
	{RenewRequest{Seq: 4, Handle: 1, Token: "d.e.f"}, "03 0000000000000004 0000000000000001 0005 642e652e66"},
	{KillRequest{Seq: 5, Handle: 1}, "04 0000000000000005 0000000000000001"},
	{InterruptRequest{Seq: 6, Handle: 1}, "05 0000000000000006 0000000000000001"},
	{Spawned{Seq: 2, Handle: 1, PID: 4711, UID: 1000, Lease: 1700000000123, Account: "alice"},
		"81 0000000000000002 0000000000000001 00001267 000003e8 0000018bcfe5687b 0005 616c696365"},
	{Refused{Seq: 2, Kind: KindRate, RetryAfter: 1500, Reason: "no"}, "82 0000000000000002 06 000005dc 0002 6e6f"},
	{Renewed{Seq: 4, Lease: 1700000000123}, "83 0000000000000004 0000018bcfe5687b"},
	{Exited{Handle: 1, Code: -1, Signal: 9, Reason: "lease expired"},
		"84 0000000000000001 ffffffff 00000009 000d 6c656173652065787069726564"},
	{SessionStatus{Seq: 7, PID: 4711, Idle: 1500, Calls: 2, Stream: true, Label: "abcdef"}, "06 0000000000000007 00001267 00000000000005dc 00000002 01 0006 616263646566"},
	{Cert{}, "85"},
	{Report{Seq: 7}, "86 0000000000000007"},
	{Plan{}, "87"},
}

func parseEither(b []byte) (Frame, error) {
	if len(b) > 0 && b[0] >= 0x80 {
		return ParseReply(b)
	}
	return ParseRequest(b)
}

func TestFramesAreTheBytesOfTheirPage(t *testing.T) {
	for _, e := range examples {
		want, err := hex.DecodeString(strings.ReplaceAll(e.hex, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		got, err := Encode(e.frame)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("Encode(%#v) = %x, %v; want %x", e.frame, got, err, want)
		}
		back, err := parseEither(want)
		if err != nil || !reflect.DeepEqual(back, e.frame) {
			t.Errorf("parse %s = %#v, %v; want %#v", e.hex, back, err, e.frame)
		}
		for n := 1; n < len(want); n++ {
			if f, err := parseEither(want[:n]); err == nil {
				t.Errorf("%v cut to %d bytes was accepted as %#v", e.frame.Type(), n, f)
			}
		}
		if _, err := parseEither(append(want, 0)); err == nil {
			t.Errorf("%v with a byte too many was accepted", e.frame.Type())
		}
	}
}

// TestPageShowsTheExamples and the kinds, all of them and no others.
func TestPageShowsTheExamples(t *testing.T) {
	page, err := os.ReadFile("../../docs/frames.md")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(page), "## Examples")
	var want strings.Builder
	for _, e := range examples {
		fmt.Fprintf(&want, "| %v | `%s` |\n", e.frame.Type(), e.hex)
	}
	if !strings.HasSuffix(shown, "|---|---|\n"+want.String()) {
		t.Errorf("docs/frames.md lacks, in this order:\n%s", want.String())
	}
	var kinds []string
	for k := Kind(0); k <= KindRefused; k++ {
		kinds = append(kinds, fmt.Sprintf("%d %v", k, k))
	}
	flat := strings.Join(strings.Fields(string(page)), " ")
	if list := "Kinds of REFUSED: " + strings.Join(kinds, " · ") + "."; !strings.Contains(flat, list) {
		t.Errorf("docs/frames.md lacks %q", list)
	}
	for _, e := range examples {
		row := fmt.Sprintf("| `%02x` | %v |", uint8(e.frame.Type()), e.frame.Type())
		if strings.Count(string(page), row) != 1 {
			t.Errorf("docs/frames.md has no row %q", row)
		}
	}
}

func TestFramesOfTheOtherDirectionAreRefused(t *testing.T) {
	for _, e := range examples {
		b, _ := Encode(e.frame)
		parse := ParseReply
		if b[0] >= 0x80 {
			parse = ParseRequest
		}
		if f, err := parse(b); err == nil || !strings.Contains(err.Error(), "unlisted") {
			t.Errorf("%v was read as a frame of the other side: %v, %v", e.frame.Type(), f, err)
		}
	}
}

func TestImpossibleFramesAreNeitherWrittenNorRead(t *testing.T) {
	ok := Spawned{Seq: 1, Handle: 1, PID: 2, UID: 3, Account: "a"}
	change := func(f func(*Spawned)) Frame { s := ok; f(&s); return s }
	for name, f := range map[string]Frame{
		"another protocol version": Hello{Version: 2},
		"worker is root":           change(func(s *Spawned) { s.UID = 0 }),
		"uid -1":                   change(func(s *Spawned) { s.UID = ^uint32(0) }),
		"pid 0":                    change(func(s *Spawned) { s.PID = 0 }),
		"pid that would be -1":     change(func(s *Spawned) { s.PID = ^uint32(0) }),
		"no account":               change(func(s *Spawned) { s.Account = "" }),
		"account not UTF-8":        change(func(s *Spawned) { s.Account = "\xff" }),
		"account too long":         change(func(s *Spawned) { s.Account = strings.Repeat("a", MaxAccount+1) }),
		"lease before 1970":        change(func(s *Spawned) { s.Lease = -1 }),
		"token too long":           SpawnRequest{Token: strings.Repeat("a", MaxToken+1)},
		"renewal without token":    RenewRequest{Seq: 1, Handle: 1},
		"unknown kind":             Refused{Kind: KindRefused + 1},
		"reason too long":          Refused{Reason: strings.Repeat("a", MaxReason+1)},
		"reason not UTF-8":         Refused{Reason: "\xc3"},
		"renewed to never":         Renewed{Seq: 1},
		"exit code 256":            Exited{Code: 256},
		"signal without code -1":   Exited{Code: 0, Signal: 9},
		"code -1 without a signal": Exited{Code: -1},
		"signal 65":                Exited{Code: -1, Signal: 65},
	} {
		if _, err := Encode(f); err == nil {
			t.Errorf("%s: was encoded", name)
		}
		b := f.append([]byte{byte(f.Type())})
		if _, err := parseEither(b); err == nil {
			t.Errorf("%s: was parsed", name)
		}
	}
	for name, b := range map[string][]byte{
		"empty":         {},
		"type 0":        {0},
		"unlisted type": {0x05},
		"unlisted 0x86": {0x86},
		"over the cap":  append([]byte{byte(TypeSpawn)}, make([]byte, MaxFrame)...),
	} {
		if _, err := parseEither(b); err == nil {
			t.Errorf("%s: was parsed", name)
		}
	}
}

// TestEveryFrameFits: the largest frame of every type is within the cap.
func TestEveryFrameFits(t *testing.T) {
	long := strings.Repeat("t", MaxToken)
	for _, f := range []Frame{
		SpawnRequest{Token: long}, RenewRequest{Token: long},
		Refused{Reason: strings.Repeat("r", MaxReason)}, Exited{Reason: strings.Repeat("r", MaxReason)},
	} {
		if b, err := Encode(f); err != nil || len(b) > MaxFrame {
			t.Errorf("%v: %d bytes, %v", f.Type(), len(b), err)
		}
	}
}

// FuzzFrames: what is accepted is encoded to the same bytes; nothing panics.
func FuzzFrames(f *testing.F) {
	for _, e := range examples {
		b, _ := Encode(e.frame)
		f.Add(b)
	}
	f.Add([]byte{})
	f.Add([]byte{0x02, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, parse := range []func([]byte) (Frame, error){ParseRequest, ParseReply} {
			frame, err := parse(b)
			if err != nil {
				continue
			}
			again, err := Encode(frame)
			if err != nil || !bytes.Equal(again, b) {
				t.Fatalf("%x -> %#v -> %x, %v", b, frame, again, err)
			}
		}
	})
}
