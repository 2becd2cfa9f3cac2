package merge

import (
	"bytes"
	"fmt"
	"strings"

	"leash/proxy/resp"
)

// Info merges the INFO replies of all masters into one.
type Info struct {
	Own     map[string]string // fields that Leash answers itself
	Section []byte            // the section about Leash; nil: not asked for
	RESP3   bool
	Missing int // masters that were not asked
}

// infoReport is one merge of INFO replies.
type infoReport struct {
	Info
	texts []infoText // of the masters that answered
}

// Merge is a Func. If no reply has a text, it takes the first reply.
func (in Info) Merge(replies []*Reply) (Reply, bool) {
	if len(replies) == 0 {
		return Reply{}, false
	}
	r := infoReport{Info: in}
	for _, one := range replies {
		text, ok := resp.Text(one.Bytes())
		switch {
		case unknownSection(one.Bytes()):
		case one.isError():
			r.Missing++
		case !ok:
			return Reply{}, false
		default:
			r.texts = append(r.texts, parseInfo(text))
		}
	}
	if len(r.texts) == 0 && (r.Section == nil || !unknownSection(replies[0].Bytes())) {
		return replies[0].move(), true
	}
	text := r.text()
	if r.Section != nil {
		if len(text) > 0 {
			text = append(text, "\r\n"...)
		}
		text = append(text, r.Section...)
		if r.Missing > 0 {
			text = fmt.Appendf(text, "leash_missing_masters:%d\r\n", r.Missing)
		}
	}
	return Of(resp.AppendText(nil, r.RESP3, string(text))), true
}

// unknownSection reports whether the reply is the embedded Redis's error for an unknown section.
func unknownSection(reply []byte) bool {
	return bytes.HasPrefix(reply, []byte("-ERR section ")) || bytes.HasPrefix(reply, []byte("-section ("))
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

// value returns the value of a field for all masters. ok is false if the value is not known, or if
// the field is not shown to clients.
func (r *infoReport) value(name string) (value string, ok bool) {
	if own, ok := r.Own[name]; ok {
		return own, true
	}
	rule := infoRuleOf(name)
	switch {
	case rule.how == hidden:
		return "", false
	case rule.how == anyValue, len(r.texts) == 1 && r.Missing == 0:
		return r.texts[0].values[name], true
	case r.Missing > 0:
		return "", false
	}
	return rule.merge(r.all(rule.of), r.all(rule.under))
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
