// Package conf is the configuration of "gatehouse serve" and "gatehouse check":
// one table of settings, from which the command's flags, the strict reading of
// the YAML file and of the environment, the origin of each value, the listing
// that "check" prints and docs/config.md are all derived.
//
// Reading and validating open nothing: no socket, no process. Every problem is
// collected and all are reported together, each with its place (file, line and
// column; name of the variable; name of the flag) and what is accepted there.
package conf

//go:generate sh -c "go run gatehouse/cmd/gatehouse config-docs >../../../docs/config.md"
