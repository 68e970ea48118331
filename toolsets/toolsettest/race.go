//go:build race

package toolsettest

// raceDetector makes whole modules take minutes and finds nothing new in them.
const raceDetector = true
