package transport

import (
	"crypto/sha1"
	"encoding/hex"
	"io/fs"
	"regexp"
	"slices"
)

// Script is one Lua script.
type Script struct {
	Source, SHA string
}

// Load joins the named files of lua/ to one script. It panics if one is missing.
func Load(files fs.FS, names ...string) *Script {
	var texts []string
	for _, name := range names {
		text, err := fs.ReadFile(files, "lua/"+name+".lua")
		if err != nil {
			panic("lockcmd: embedded script " + name + ": " + err.Error())
		}
		texts = append(texts, string(text))
	}
	source := join(texts)
	sum := sha1.Sum([]byte(source))
	return &Script{Source: source, SHA: hex.EncodeToString(sum[:])}
}

// CallPattern finds the commands that a script calls.
var CallPattern = regexp.MustCompile(`redis\.p?call\('([A-Z]+)'`)

// Commands are the names of the commands that the script calls.
func (sc *Script) Commands() (names []string) {
	for _, m := range CallPattern.FindAllStringSubmatch(sc.Source, -1) {
		if !slices.Contains(names, m[1]) {
			names = append(names, m[1])
		}
	}
	return names
}
