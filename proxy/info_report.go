package proxy

import (
	"bytes"
	"fmt"
	"strings"

	"leash/proxy/resp"
)

// infoReport merges the INFO replies of all masters into one.
type infoReport struct {
	own     map[string]string // fields that Leash answers itself
	leash   []byte            // the section about Leash; nil: not asked for
	resp3   bool
	missing int // masters that were not asked or answered with an error

	texts []infoText // of the masters that answered
}

// merge is the merge function of INFO. Some parts may have failed. If no part has a text, it
// returns the first reply.
func (r *infoReport) merge(f *fanout) []byte {
	for _, p := range f.parts {
		text, ok := infoBody(p.whole())
		switch {
		case unknownSection(p.whole()):
		case len(p.whole()) > 0 && p.whole()[0] == '-':
			r.missing++
		case !ok:
			return nil
		default:
			r.texts = append(r.texts, parseInfo(text))
		}
	}
	text := r.text()
	if reply := f.parts[0].whole(); len(r.texts) == 0 && (r.leash == nil || !unknownSection(reply)) {
		return reply
	}
	if r.leash != nil {
		if len(text) > 0 {
			text = append(text, "\r\n"...)
		}
		text = append(text, r.leash...)
		if r.missing > 0 {
			text = fmt.Appendf(text, "leash_missing_masters:%d\r\n", r.missing)
		}
	}
	if r.resp3 {
		return resp.AppendVerbatim(nil, string(text))
	}
	return resp.AppendBulk(nil, text)
}

// unknownSection reports whether the reply is the embedded Redis's error for an unknown section.
func unknownSection(reply []byte) bool {
	return bytes.HasPrefix(reply, []byte("-ERR section ")) || bytes.HasPrefix(reply, []byte("-section ("))
}

// infoBody returns the text of a bulk string or a verbatim string.
func infoBody(reply []byte) (text []byte, ok bool) {
	i := bytes.IndexByte(reply, '\n')
	if i < 0 || reply[0] != '$' && reply[0] != '=' || len(reply) < i+3 {
		return nil, false
	}
	return bytes.TrimPrefix(reply[i+1:len(reply)-2], []byte("txt:")), true
}

// text returns the sections of the first text, with the values for all masters.
func (r *infoReport) text() []byte {
	var b bytes.Buffer
	if len(r.texts) == 0 {
		return nil
	}
	for i, section := range r.texts[0].sections {
		if i > 0 {
			b.WriteString("\r\n")
		}
		fmt.Fprintf(&b, "# %s\r\n", section.title)
		for _, name := range r.fieldsOf(section) {
			if value, ok := r.value(name); ok {
				fmt.Fprintf(&b, "%s:%s\r\n", name, value)
			}
		}
	}
	return b.Bytes()
}

// fieldsOf returns the names of the fields in a section. They are those of the first text. If the
// fields name databases, commands or errors, they are those of all texts.
func (r *infoReport) fieldsOf(section infoSection) []string {
	names := section.fields
	if len(r.texts) == 1 || !unionSections[section.title] {
		return names
	}
	seen := make(map[string]bool)
	var all []string
	for _, text := range r.texts {
		for _, other := range text.sections {
			for _, name := range other.fields {
				if other.title == section.title && !seen[name] {
					seen[name] = true
					all = append(all, name)
				}
			}
		}
	}
	return all
}

// unionSections are the sections whose fields name databases, commands or errors.
var unionSections = map[string]bool{"Keyspace": true, "Commandstats": true, "Errorstats": true}

// value returns the value of a field for all masters. ok is false if the value is not known, or if
// the field is not shown to clients.
func (r *infoReport) value(name string) (value string, ok bool) {
	if own, ok := r.own[name]; ok {
		return own, true
	}
	first := r.texts[0].values[name]
	if isReplicaLine(name) || strings.HasPrefix(name, "listener") {
		return "", false
	}
	if len(r.texts) == 1 && r.missing == 0 {
		return first, true
	}
	rule := infoRuleOf(name)
	switch {
	case rule == nil:
		return first, true
	case r.missing > 0:
		return "", false
	}
	return rule(r, name)
}

// isReplicaLine reports whether a field such as "slave0" describes a replica. Clients cannot reach
// replicas through Leash.
func isReplicaLine(name string) bool {
	n, ok := strings.CutPrefix(name, "slave")
	return ok && n != "" && strings.Trim(n, "0123456789") == ""
}

// all returns the values that a field has in the texts that have it.
func (r *infoReport) all(name string) (values []string) {
	for _, t := range r.texts {
		if v, ok := t.values[name]; ok {
			values = append(values, v)
		}
	}
	return values
}

// infoText is a parsed reply to INFO.
type infoText struct {
	sections []infoSection
	values   map[string]string
}

type infoSection struct {
	title  string
	fields []string
}

func parseInfo(text []byte) infoText {
	t := infoText{values: make(map[string]string)}
	for line := range strings.SplitSeq(string(text), "\r\n") {
		if title, ok := strings.CutPrefix(line, "# "); ok {
			t.sections = append(t.sections, infoSection{title: title})
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || len(t.sections) == 0 {
			continue
		}
		last := &t.sections[len(t.sections)-1]
		last.fields = append(last.fields, name)
		t.values[name] = value
	}
	return t
}
