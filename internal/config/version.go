package config

import "runtime/debug"

// version is set by the linker: -X leash/internal/config.version=v1.2.3.
var version string

// Version is the version of this binary: from the linker, else the module or commit of the build
// info, else "devel".
func Version() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}
