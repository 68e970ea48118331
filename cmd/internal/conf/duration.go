package conf

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// errDuration is the one complaint about a duration's form.
var errDuration = errors.New("is not a duration")

// maxDuration is ten years: beyond it a value is a slip of the hand.
const maxDuration = 10 * 365 * 24 * time.Hour

// ParseDuration reads a number of seconds ("90"), or one or more numbers with
// the units d, h, m, s or ms ("90s", "5m", "8h", "1h30m"), largest unit first
// and each at most once. It accepts no sign, no fraction, no blank and nothing
// beyond ten years.
func ParseDuration(s string) (time.Duration, error) {
	if n, err := strconv.ParseUint(s, 10, 63); err == nil {
		if n > uint64(maxDuration/time.Second) {
			return 0, errors.New("is longer than ten years")
		}
		return time.Duration(n) * time.Second, nil
	}
	var total time.Duration
	rest, last := s, time.Duration(1<<63-1)
	for rest != "" {
		n, unit, after, err := nextTerm(rest)
		if err != nil || unit >= last {
			return 0, errDuration
		}
		if n > uint64(maxDuration/unit) {
			return 0, errors.New("is longer than ten years")
		}
		total += time.Duration(n) * unit
		rest, last = after, unit
	}
	if s == "" {
		return 0, errDuration
	}
	if total > maxDuration {
		return 0, errors.New("is longer than ten years")
	}
	return total, nil
}

// units goes from the largest to the smallest.
var units = []struct {
	name string
	unit time.Duration
}{
	{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute},
	{"s", time.Second}, {"ms", time.Millisecond},
}

// nextTerm cuts one number with its unit off the front of s.
func nextTerm(s string) (n uint64, unit time.Duration, rest string, err error) {
	digit := func(r rune) bool { return r >= '0' && r <= '9' }
	i := strings.IndexFunc(s, func(r rune) bool { return !digit(r) })
	if i <= 0 {
		return 0, 0, "", errDuration
	}
	if n, err = strconv.ParseUint(s[:i], 10, 63); err != nil {
		return 0, 0, "", errDuration
	}
	name, rest := s[i:], ""
	if j := strings.IndexFunc(name, digit); j >= 0 {
		name, rest = name[:j], name[j:]
	}
	for _, u := range units {
		if u.name == name {
			return n, u.unit, rest, nil
		}
	}
	return 0, 0, "", errDuration
}

// FormatDuration writes d, in whole milliseconds, as ParseDuration reads it:
// "8h", "1h30m", "0s".
func FormatDuration(d time.Duration) string {
	if d < time.Millisecond {
		return "0s"
	}
	var b strings.Builder
	for _, u := range units {
		if u.unit == 24*time.Hour && d%u.unit != 0 {
			continue // 36h reads better than 1d12h
		}
		if n := d / u.unit; n > 0 {
			b.WriteString(strconv.FormatInt(int64(n), 10))
			b.WriteString(u.name)
			d %= u.unit
		}
	}
	return b.String()
}
