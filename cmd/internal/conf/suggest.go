package conf

import "fmt"

// distance is the number of edits (insert, delete, replace, swap of
// neighbours) between two names.
func distance(a, b string) int {
	prev2, prev := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur := make([]int, len(b)+1)
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev = prev, cur
	}
	return prev[len(b)]
}

// nearest is the word closest to s, or "" when none is near: at most one edit
// for short words, two for longer ones, three from twelve bytes on.
func nearest(s string, words []string) string {
	if len(s) > 64 {
		return ""
	}
	limit := 1 + min(len(s)/6, 2)
	best := ""
	for _, w := range words {
		if d := distance(s, w); d <= limit {
			best, limit = w, d-1
		}
	}
	return best
}

// didYouMean is the tail of a message, empty when nothing is near.
func didYouMean(s string, words []string) string {
	if w := nearest(s, words); w != "" {
		return fmt.Sprintf(" (did you mean %s?)", w)
	}
	return ""
}
