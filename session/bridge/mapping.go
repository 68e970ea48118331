package bridge

import (
	"math/bits"
	"sync"
	"syscall"
)

// Buffers above maxPooled lie in mappings of their own, outside the collector's heap.
// A page of one costs memory from the first byte written to it until the buffer is
// given back: it grows without a copy, and nothing waits for the next collection.
//
// The address space itself is kept for the next buffer and never unmapped: who touches
// a buffer too late reads something else, as with a pooled one, and does not fault.

// spare are the mappings that nobody uses, by their size. There are as many as were
// ever in use at once.
var spare struct {
	sync.Mutex
	bySize map[int][][]byte
}

// mapping returns memory of n bytes at least, or nil when the system gives none.
func mapping(n int) []byte {
	size := 1 << bits.Len(uint(n-1))
	spare.Lock()
	if free := spare.bySize[size]; len(free) > 0 {
		m := free[len(free)-1]
		spare.bySize[size] = free[:len(free)-1]
		spare.Unlock()
		return m
	}
	spare.Unlock()
	m, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON|syscall.MAP_NORESERVE)
	if err != nil {
		return nil
	}
	return m
}

// unused gives the memory of a mapping back to the system, and keeps its place.
func unused(m []byte) {
	_ = syscall.Madvise(m, syscall.MADV_DONTNEED) // fails for no mapping of ours; it would only cost memory
	spare.Lock()
	defer spare.Unlock()
	if spare.bySize == nil {
		spare.bySize = map[int][][]byte{}
	}
	spare.bySize[len(m)] = append(spare.bySize[len(m)], m)
}
