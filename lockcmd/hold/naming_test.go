package hold

import "testing"

func TestNamingIsAKeyAndAnOwner(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		naming    naming
		key, name string
	}{
		{naming{}, "", ""},
		{named("key", "me"), "key", "me"},
		{named("", "me"), "", "me"},
		{named("key", ""), "key", ""},
		{numbered("key", 7), "key", ""},
		{numbered("", 1), "", ""},
	} {
		if key, name := row.naming.Key(), row.naming.name(); key != row.key || name != row.name {
			t.Errorf("%#v: got key %q and name %q, want %q and %q", row.naming, key, name, row.key, row.name)
		}
	}
}
