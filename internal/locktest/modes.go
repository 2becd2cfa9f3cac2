package locktest

import "leash/lockcmd/script"

// LockMode returns the mode of an option of ACQUIRE.
func LockMode(option string) *script.Mode {
	for _, m := range script.Modes {
		if m.Option == option {
			return m
		}
	}
	return nil
}

// ExclusiveOptions returns the options of an acquire that excludes every other holder.
func ExclusiveOptions(m *script.Mode) []string {
	switch m {
	case script.Plain:
		return nil
	case script.Fair:
		return []string{"FAIR"}
	}
	return []string{"WRITE"}
}
