//go:build !race

package toolsettest

const raceDetector = false
