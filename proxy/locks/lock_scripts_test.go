package locks_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// luaFiles returns the longest piece of each file in lockcmd/script/lua, by file name, without
// comments, as Leash sends it. A piece is a function, or what stands between functions. Leash
// leaves out functions that a script does not call.
func luaFiles(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../../lockcmd/script/lua/*.lua")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	all := make(map[string]string)
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(file)] = longestPiece(string(source))
	}
	return all
}

func longestPiece(source string) (longest string) {
	piece := ""
	for line := range strings.Lines(source) {
		if strings.HasPrefix(line, "local function ") {
			piece = ""
		}
		if code := strings.TrimSpace(line); code != "" && !strings.HasPrefix(code, "--") {
			piece += code + "\n"
		}
		if len(piece) > len(longest) {
			longest = piece
		}
		if line == "end\n" || strings.HasPrefix(line, "local function ") && strings.HasSuffix(line, " end\n") {
			piece = ""
		}
	}
	return longest
}

// scriptsWithoutScene are the scripts that no scene can run. The lockcmd package runs them, in
// TestAScriptRunDirectlyWithoutARightLeavesNothing. That test fails when one of them has no scene
// there.
func scriptsWithoutScene(t *testing.T) (names []string) {
	t.Helper()
	list, err := os.ReadFile("../../lockcmd/script/integration/testdata/scripts_without_scene.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(list)) {
		name, _, _ := strings.Cut(line, ":")
		names = append(names, name)
	}
	return append(names, "renew_each.lua", "restore_each.lua", "rw_make_room.lua") // parts of those
}

var evalInMonitor = regexp.MustCompile(`(?i)"EVAL" ("(?:[^"\\]|\\.)*")`)

// TestLockScenesRunAllScripts checks that the scenes run every script in lockcmd/script/lua, except
// those in scriptsWithoutScene.
func TestLockScenesRunAllScripts(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	direct, monitor := redistest.Connect(t, s.Addr), proxytest.Dial(t, s.Addr)
	monitor.Want(t, "+OK\r\n", "MONITOR")
	l := proxytest.Start(t, []string{s.Addr})
	missing := luaFiles(t)
	for _, name := range scriptsWithoutScene(t) {
		if missing[name] == "" {
			t.Errorf("there is no %s", name)
		}
		delete(missing, name)
	}
	// A waiter that is asking Redis itself gets no hand-over, so the scenes may run again.
	for until := time.Now().Add(20 * time.Second); len(missing) > 0 && time.Now().Before(until); {
		for _, scene := range lockScenes {
			direct.Do("FLUSHALL")
			run, end := scene.start(t, l)
			run(scene.step)
			end()
		}
		direct.Do("ECHO", "all scenes are over")
		for line := ""; !strings.Contains(line, "all scenes are over"); {
			var err error
			if line, err = monitor.Read(); err != nil {
				t.Fatal(err)
			}
			m := evalInMonitor.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			text, err := strconv.Unquote(m[1])
			if err != nil {
				t.Fatal(err)
			}
			maps.DeleteFunc(missing, func(_, code string) bool { return strings.Contains(text, code) })
		}
	}
	for name := range missing {
		t.Errorf("no scene runs %s", name)
	}
}
