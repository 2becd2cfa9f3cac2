package config

import (
	"reflect"
	"slices"
	"testing"
)

func TestConceal(t *testing.T) {
	for _, c := range []struct {
		name            string
		args, environ   []string
		visible, hidden []string
		changed         bool
	}{
		{"nothing", []string{"--upstream", "a:1", "--threads=2"}, []string{"A=b"},
			[]string{"--upstream", "a:1", "--threads=2"}, []string{"A=b"}, false},
		{"two arguments", []string{"--upstream-password", "x y", "--threads", "2"}, []string{"A=b"},
			[]string{"--threads", "2"}, []string{"A=b", "LEASH_UPSTREAM_PASSWORD=x y"}, true},
		{"one argument", []string{"--threads=2", "--sentinel-password=a=b"}, nil,
			[]string{"--threads=2"}, []string{"LEASH_SENTINEL_PASSWORD=a=b"}, true},
		{"the flag is stronger", []string{"--upstream-password=new"}, []string{"LEASH_UPSTREAM_PASSWORD=old"},
			nil, []string{"LEASH_UPSTREAM_PASSWORD=new"}, true},
		{"twice the same", []string{"--upstream-password=a", "--upstream-password=a"}, nil,
			nil, []string{"LEASH_UPSTREAM_PASSWORD=a"}, true},
		{"twice different", []string{"--upstream-password=a", "--upstream-password=b"}, nil,
			[]string{"--upstream-password=a", "--upstream-password=b"}, nil, false},
		{"a URL", []string{"--upstream=redis://u:p@a:1", "--upstream", "b:2"}, nil,
			nil, []string{"LEASH_UPSTREAM=redis://u:p@a:1,b:2"}, true},
		{"no value", []string{"--upstream-password"}, nil, []string{"--upstream-password"}, nil, false},
		{"empty", []string{"--upstream-password="}, nil, []string{"--upstream-password="}, nil, false},
	} {
		visible, hidden, changed := Conceal(c.args, c.environ)
		if !slices.Equal(visible, c.visible) || !slices.Equal(hidden, c.hidden) || changed != c.changed {
			t.Errorf("%s: got %q, %q, %v", c.name, visible, hidden, changed)
		}
	}
}

// TestConcealKeepsSettings checks that the settings are the same before and after Conceal.
func TestConcealKeepsSettings(t *testing.T) {
	args := []string{"--threads", "3", "--upstream", "rediss://user:p%2Cw@a:1,rediss://b:2", "--upstream", "c:3"}
	visible, hidden, _ := Conceal(args, nil)
	before, err := Parse(args, nil)
	if err != nil {
		t.Fatal(err)
	}
	after, err := Parse(visible, hidden)
	if err != nil || !reflect.DeepEqual(before, after) {
		t.Errorf("got %+v, %v; want %+v", after, err, before)
	}
}

// TestEverySecretIsConcealed checks that each setting with a hidden value is concealed.
func TestEverySecretIsConcealed(t *testing.T) {
	c := Default()
	for _, g := range groups(&c) {
		for _, o := range g.options {
			if o.value.hidden && !slices.Contains(concealed, o.name) {
				t.Errorf("--%s is not", o.name)
			}
		}
	}
}
