package command

import (
	"fmt"
	"slices"
	"strings"
)

// Set is some commands of a table. The zero value has none.
type Set struct{ has []bool } // by Command.Index

// Has reports whether a command is in the set.
func (s Set) Has(c *Command) bool { return c.Index < len(s.has) && s.has[c.Index] }

// Empty reports whether no command can be in the set.
func (s Set) Empty() bool { return s.has == nil }

// Select returns the commands that patterns name. A pattern is a command, as in "config",
// "config|set" or "@dangerous". A command includes its subcommands. Case does not matter.
//
// The error says which pattern names no command. A category includes each command whose categories
// are not known, because it may be one of them. If Redis has told no categories at all, that is an
// error.
func (t Table) Select(patterns []string) (Set, error) {
	if len(patterns) == 0 {
		return Set{}, nil
	}
	s := Set{make([]bool, len(t.All()))}
	for _, pattern := range patterns {
		var err error
		if category, ok := strings.CutPrefix(pattern, "@"); ok {
			err = t.selectCategory(&s, "@"+strings.ToLower(category))
		} else {
			err = t.selectName(&s, pattern)
		}
		if err != nil {
			return Set{}, err
		}
	}
	return s, nil
}

func (t Table) selectName(s *Set, name string) error {
	c := t.named(name)
	if c == nil {
		return fmt.Errorf("redis has no command %q", name)
	}
	s.add(c)
	return nil
}

func (s *Set) add(c *Command) {
	s.has[c.Index] = true
	for _, sub := range c.Subs {
		s.add(sub)
	}
}

func (t Table) selectCategory(s *Set, category string) error {
	known, found := false, false
	for _, c := range t {
		known = known || c.Own == nil && len(c.Categories) > 0
		found = s.addIfIn(c, category, nil) || found
	}
	switch {
	case !known:
		return fmt.Errorf("redis does not tell which commands are in %s: name the commands instead", category)
	case !found:
		return fmt.Errorf("redis has no category %q", category)
	}
	return nil
}

// addIfIn adds a command and those of its subcommands that are in a category. A subcommand without
// categories of its own has those of its parent. It reports whether one is known to be in it.
func (s *Set) addIfIn(c *Command, category string, inherited []string) (found bool) {
	categories := c.Categories
	switch {
	case c.Own != nil:
		categories = c.Own.Categories()
	case len(categories) == 0:
		categories = inherited
	}
	found = slices.Contains(categories, category)
	if found || len(categories) == 0 {
		s.has[c.Index] = true
	}
	for _, sub := range c.Subs {
		found = s.addIfIn(sub, category, categories) || found
	}
	return found
}
