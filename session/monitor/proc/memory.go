package proc

import (
	"fmt"
	"os"
	"strings"
)

// Resident is how many bytes of a process are in memory; 0 when it is gone or can't
// be seen.
func Resident(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	var size, resident int64
	if _, err := fmt.Fscan(strings.NewReader(string(b)), &size, &resident); err != nil {
		return 0
	}
	return resident * int64(os.Getpagesize())
}
