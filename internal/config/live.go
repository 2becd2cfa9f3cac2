package config

import (
	"errors"
	"fmt"
	"strings"
)

// Settings are the names and values of all settings, which alternate. Passwords are hidden.
func (c Config) Settings() (pairs []string) {
	for _, g := range groups(&c) {
		for _, o := range g.options {
			pairs = append(pairs, o.name, o.value.String())
		}
	}
	return pairs
}

// Set returns c with some settings changed: all, or none if there is an error. pairs are names, in
// any case, and values, which alternate. Only settings that may change while Leash runs can be set.
// An error is the one that CONFIG SET of Redis gives. Set does no I/O.
func (c Config) Set(pairs []string) (Config, error) {
	options := make(map[string]option)
	for _, g := range groups(&c) {
		for _, o := range g.options {
			options[o.name] = o
		}
	}
	values := make(map[string]string)
	var names []string
	for i := 0; i+1 < len(pairs); i += 2 {
		name := strings.ToLower(pairs[i])
		o, known := options[name]
		_, again := values[name]
		switch {
		case !known:
			//lint:ignore ST1005 the words of Redis
			return c, fmt.Errorf("Unknown option or number of arguments for CONFIG SET - '%s'", name)
		case !o.live:
			return c, setError(name, "can't set immutable config")
		case again:
			return c, setError(name, "duplicate parameter")
		}
		names, values[name] = append(names, name), pairs[i+1]
	}
	for _, name := range names {
		if err := options[name].value.set(values[name]); err != nil {
			return c, setError(name, "argument "+err.Error())
		}
	}
	if err := c.Validate(); err != nil {
		text := strings.ReplaceAll(err.Error(), "\n", "; ")
		for _, name := range names {
			if strings.Contains(text+" ", "--"+name+" ") {
				return c, setError(name, text)
			}
		}
		return c, errors.New(text)
	}
	return c, nil
}

// setError is Redis's error for a setting that CONFIG SET refuses.
func setError(name, reason string) error {
	return fmt.Errorf("CONFIG SET failed (possibly related to argument '%s') - %s", name, reason)
}
