package bridge

import "slices"

// ledgerSize is how many given-up calls are remembered one by one.
const ledgerSize = 256

// ledger remembers the ids of calls that were given up, whose answers may still
// come. It is bounded: the oldest fall below a floor, and what is below the floor
// gets the benefit of the doubt.
type ledger struct {
	ids   []uint64
	floor uint64
}

// add notes that the call of that id was given up.
func (l *ledger) add(id uint64) {
	if len(l.ids) == ledgerSize {
		i := 0
		for j := range l.ids {
			if l.ids[j] < l.ids[i] {
				i = j
			}
		}
		l.floor = max(l.floor, l.ids[i])
		l.ids = slices.Delete(l.ids, i, i+1)
	}
	l.ids = append(l.ids, id)
}

// late reports whether an answer to id may be a late one to a given-up call, and
// forgets the id: a second answer is none.
func (l *ledger) late(id uint64) bool {
	if i := slices.Index(l.ids, id); i >= 0 {
		l.ids = slices.Delete(l.ids, i, i+1)
		return true
	}
	return id <= l.floor
}
