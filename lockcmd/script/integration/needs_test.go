package script_test

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd/script"
)

// strictCheck makes redis.acl_check_cmd refuse a wrong number of arguments, as Redis 8.6.3 does.
const strictCheck = `local real, arity = redis, {%s}
local redis = setmetatable({acl_check_cmd = function(...)
  local n, a = select('#', ...), arity[...]
  if a > 0 and a ~= n or n < -a then error({err = 'ERR Wrong number of args for redis.acl_check_cmd()'}) end
  return real.acl_check_cmd(...)
end}, {__index = real})
`

// TestNeedsFindsEachMissingRight: Leash's own user lacks one command. The scripts find that before
// they write, also on a server that counts the arguments of the question.
func TestNeedsFindsEachMissingRight(t *testing.T) {
	t.Parallel()
	admin := locktest.DialServer(t, redistest.Start(t).Addr)
	prelude, err := fs.ReadFile(script.Files, "lua/prelude.lua")
	if err != nil {
		t.Fatal(err)
	}
	isPublish := func(name string) bool { return strings.HasSuffix(name, "PUBLISH") }
	names := slices.DeleteFunc(script.AllCommands(), isPublish)
	var arities []string
	for name, info := range admin.Command(t.Context()).Val() {
		arities = append(arities, fmt.Sprintf("%s = %d", strings.ToUpper(strings.ReplaceAll(name, "-", "_")), info.Arity))
	}
	strict := fmt.Sprintf(strictCheck, strings.Join(arities, ", "))
	source := string(prelude) + "needs('" + strings.Join(names, "', '") + "') return 'all'"
	for _, missing := range append(names, "") {
		rights := []any{"ACL", "SETUSER", "limited", "reset", "on", ">pw", "~*", "&*", "+@all"}
		want := "all"
		if missing != "" {
			rights = append(rights, "-"+missing)
			want = "NOPERM Leash's own user has no permissions to run the '" + strings.ToLower(missing) + "' command on that key"
		}
		if err := admin.Do(t.Context(), rights...).Err(); err != nil {
			t.Fatal(err)
		}
		opt := *admin.Options()
		opt.Username, opt.Password = "limited", "pw"
		rdb := redis.NewClient(&opt)
		t.Cleanup(func() { rdb.Close() })
		for _, server := range []string{"", strict} {
			reply, err := rdb.Eval(t.Context(), server+source, []string{"k"}).Result()
			if err != nil {
				reply = err.Error()
			}
			if text := fmt.Sprint(reply); !strings.HasPrefix(text, want) {
				t.Errorf("without %q, strict %v: got %q", missing, server != "", text)
			}
		}
	}
}
