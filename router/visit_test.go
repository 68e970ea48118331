package router

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unsafe"
)

// keeper is a response writer that goes on reading what it was given, as net/http's
// HTTP/2 server may once a write has failed.
type keeper struct {
	http.ResponseWriter
	err    error
	pieces [][]byte
}

func (k *keeper) Write(p []byte) (int, error) {
	k.pieces = append(k.pieces, p)
	return len(p), k.err
}

// TestFailedPieceIsNotUsedAgain: of a long message to an HTTP/2 client neither its own
// memory nor that of a piece whose write failed is at somebody else's disposal.
func TestFailedPieceIsNotUsedAgain(t *testing.T) {
	send := func(err error, message string) *keeper {
		k := &keeper{ResponseWriter: httptest.NewRecorder(), err: err}
		r := httptest.NewRequest("POST", "/mcp", nil)
		r.ProtoMajor = 2
		var v visit
		v.begin(k, r, usual, nil)
		b := []byte(message)
		if got := v.send(b); !errors.Is(got, err) {
			t.Errorf("sending: %v, want %v", got, err)
		}
		for i := range b {
			b[i] = '-' // its buffer is used again
		}
		return k
	}
	broken := errors.New("stream closed")
	failed := map[*byte]bool{}
	var kept []*keeper
	for range 100 {
		k := send(broken, strings.Repeat("a", writeChunk+1))
		if len(k.pieces) != 1 {
			t.Fatalf("%d pieces after one failed", len(k.pieces))
		}
		at := unsafe.SliceData(k.pieces[0])
		if failed[at] {
			t.Fatal("the memory of a piece whose write failed was used again")
		}
		failed[at], kept = true, append(kept, k)
		if n := len(send(nil, strings.Repeat("b", 3*writeChunk)).pieces); n != 3 {
			t.Fatalf("%d pieces, want 3", n)
		}
	}
	for _, k := range kept {
		if got := strings.Trim(string(k.pieces[0]), "a"); got != "" {
			t.Fatalf("a piece whose write failed holds %.10q of something else", got)
		}
	}
}
