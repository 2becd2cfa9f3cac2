package config

import "runtime/debug"

// version is set by the linker: -X leash/internal/config.version=v1.2.3.
var version string

// Version is the version this binary was built from: what the linker was told, else what the build
// info knows of the module or of the commit, else "devel".
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
