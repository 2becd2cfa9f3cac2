package config

// A Change is a setting that differs between two Configs.
type Change struct {
	Name     string // without dashes
	Old, New string // hidden if it is a password
	Live     bool   // it may change while Leash runs
}

// Adopt returns c with those settings of next that may change while Leash runs, and everything that
// differs. It does no I/O.
func (c Config) Adopt(next Config) (adopted Config, changes []Change) {
	byFile := map[string]bool{
		"upstream-password": c.UpstreamPasswordFile != "" || next.UpstreamPasswordFile != "",
		"sentinel-password": c.SentinelPasswordFile != "" || next.SentinelPasswordFile != "",
	}
	nextGroups := groups(&next)
	for i, g := range groups(&c) {
		for j, o := range g.options {
			n := nextGroups[i].options[j]
			if o.value.format() == n.value.format() || byFile[o.name] {
				continue // who reads the file follows its content
			}
			changes = append(changes, Change{Name: o.name, Old: o.value.String(), New: n.value.String(), Live: o.live})
			if o.live {
				_ = o.value.set(n.value.format()) // next has the same text, so it is valid
			}
		}
	}
	return c, changes
}
