package main

import (
	"fmt"
	"runtime/debug"
)

// version is set by the linker for releases: -ldflags "-X main.version=v1.2.3".
var version string

type versionCmd struct{}

// Run prints one line: version, commit, Go's version.
func (versionCmd) Run(s streams) error {
	info, _ := debug.ReadBuildInfo()
	_, err := fmt.Fprintln(s.out, describeBuild(version, info))
	return err
}

// describeBuild words what was built; linked wins over what Go recorded.
func describeBuild(linked string, info *debug.BuildInfo) string {
	out := "gatehouse " + linked
	if info == nil {
		if linked == "" {
			out += "unknown"
		}
		return out
	}
	if linked == "" {
		out += info.Main.Version
	}
	vcs := map[string]string{}
	for _, s := range info.Settings {
		vcs[s.Key] = s.Value
	}
	if rev := vcs["vcs.revision"]; rev != "" {
		out += " commit " + rev[:min(12, len(rev))]
		if vcs["vcs.modified"] == "true" {
			out += " with changes"
		}
	}
	return out + " " + info.GoVersion
}
