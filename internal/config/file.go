package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"

	"github.com/pelletier/go-toml/v2"
)

// maxConfigFile is how many bytes the file of --config may have.
const maxConfigFile = mib

// settingsFile is the content of the file of --config.
type settingsFile struct {
	path   string
	public bool            // every user of the machine can read it
	values map[string]any  // as package toml decodes them
	lines  map[string]int  // where each name begins
	used   map[string]bool // the names that neither a flag nor a variable has set
}

// readSettingsFile reads the file of --config. The error never shows a value, because it may be a
// password.
func readSettingsFile(path string) (settingsFile, error) {
	f := settingsFile{path: path, used: make(map[string]bool)}
	opened, err := os.Open(path)
	if err != nil {
		return f, fmt.Errorf("--config: %w", err)
	}
	defer opened.Close()
	content, err := io.ReadAll(io.LimitReader(opened, maxConfigFile+1))
	switch info, failure := opened.Stat(); {
	case errors.Join(err, failure) != nil:
		return f, fmt.Errorf("--config: %w", errors.Join(err, failure))
	case len(content) > maxConfigFile:
		return f, fmt.Errorf("--config %q is larger than %s: it can't be a list of settings", path, formatSize(maxConfigFile))
	default:
		f.public = info.Mode().Perm()&0o004 != 0
	}
	if err := toml.Unmarshal(content, &f.values); err != nil {
		return f, f.syntaxError(err)
	}
	f.lines = linesOf(content)
	return f, nil
}

// syntaxError says where the file is not TOML.
func (f settingsFile) syntaxError(err error) error {
	var at *toml.DecodeError
	if !errors.As(err, &at) {
		return fmt.Errorf("%s: is not TOML: write name = value on each line", f.path)
	}
	line, column := at.Position()
	if key := at.Key(); len(key) > 0 {
		return fmt.Errorf("%s:%d: %s is given twice: give it once", f.path, line, key[0])
	}
	return fmt.Errorf("%s:%d:%d: is not TOML: write name = value on each line, and texts in quotes", f.path, line, column)
}

// linesOf returns the line on which each name of a valid file begins. To a strict decoder, every
// name is unknown and its error has the line.
func linesOf(content []byte) map[string]int {
	lines := make(map[string]int)
	strict := toml.NewDecoder(bytes.NewReader(content)).DisallowUnknownFields()
	var unknown *toml.StrictMissingError
	if !errors.As(strict.Decode(&struct{}{}), &unknown) {
		return lines
	}
	for _, e := range unknown.Errors {
		if _, known := lines[e.Key()[0]]; !known {
			lines[e.Key()[0]], _ = e.Position()
		}
	}
	return lines
}

// at begins an error about a name of the file.
func (f settingsFile) at(name string) string { return fmt.Sprintf("%s:%d: ", f.path, f.lines[name]) }

// apply sets the options that neither a flag nor a variable has set. given has the names of those.
func (f settingsFile) apply(gs []group, given map[string]bool) error {
	options := make(map[string]option)
	for _, g := range gs {
		for _, o := range g.options {
			options[o.name] = o
		}
	}
	delete(options, "config")
	known := slices.Sorted(maps.Keys(options))
	names := slices.SortedFunc(maps.Keys(f.values), func(a, b string) int { return f.lines[a] - f.lines[b] })
	var errs []error
	for _, name := range names {
		o, ok := options[name]
		_, isTable := f.values[name].(map[string]any)
		switch {
		case !ok && isTable:
			errs = append(errs, fmt.Errorf("%s%s is a table: write each setting as name = value, without tables", f.at(name), name))
		case !ok:
			errs = append(errs, fmt.Errorf("%s%s is not a setting%s", f.at(name), name, suggest(name, known)))
		case given[name]:
		default:
			f.used[name] = true
			if err := o.setFromFile(f.values[name]); err != nil {
				errs = append(errs, fmt.Errorf("%s--%s %w", f.at(name), name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// hasSecret reports whether a password is in the file.
func (f settingsFile) hasSecret(gs []group) bool {
	for _, g := range gs {
		for _, o := range g.options {
			v, ok := f.values[o.name]
			if ok && (o.value.hidden || o.name == "upstream" && mayBeURL(fmt.Sprint(v))) {
				return true
			}
		}
	}
	return false
}

// setFromFile sets the option to a value of the file. The error continues a sentence that begins
// with the flag. It shows the value unless that may be a password.
func (o option) setFromFile(v any) error {
	list, isList := v.([]any)
	switch {
	case isList && !o.value.grows:
		return errors.New("is a list: give one value")
	case isList && len(list) == 0:
		return errors.New("is empty: give a value, or remove the line")
	case !isList:
		list = []any{v}
	}
	for _, entry := range list {
		text, err := o.textOf(entry)
		if err != nil {
			return err
		}
		if err := o.value.Set(text); err != nil {
			if o.value.hidden || mayBeURL(text) {
				return err
			}
			return fmt.Errorf("%q %w", text, err)
		}
	}
	return nil
}

// textOf is one value of the file as the text that the flag takes.
func (o option) textOf(v any) (string, error) {
	switch v := v.(type) {
	case string:
		if v == "" {
			return "", errors.New("is empty: give a value, or remove the line")
		}
		return v, nil
	case bool:
		if o.value.kind == kindBool {
			return strconv.FormatBool(v), nil
		}
	case int64:
		if o.value.numeric {
			return strconv.FormatInt(v, 10), nil
		}
	case float64:
		if o.value.numeric {
			return strconv.FormatFloat(v, 'g', -1, 64), nil
		}
	}
	if o.value.kind == kindBool {
		return "", errors.New("is neither true nor false")
	}
	return "", errors.New("is not a text: write the value in quotes")
}

var flagInError = regexp.MustCompile(`--[a-z][a-z-]*[a-z]`)

// locate puts the place in the file in front of each error about a setting that the file has set.
func (f settingsFile) locate(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var errs []error
		for _, e := range joined.Unwrap() {
			errs = append(errs, f.locate(e))
		}
		return errors.Join(errs...)
	}
	if err == nil {
		return nil
	}
	for _, flag := range flagInError.FindAllString(err.Error(), -1) {
		if name := flag[len("--"):]; f.used[name] {
			return fmt.Errorf("%s%w", f.at(name), err)
		}
	}
	return err
}
