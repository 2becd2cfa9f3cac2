package docscheck

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"leash/internal/leashtest"
)

func TestMain(m *testing.M) { os.Exit(leashtest.Main(m)) }

var ownCommand = regexp.MustCompile(`(?:Name: *|describe\()"((?:(?:lock|sem|latch)\.|leash\|)[a-z]+)"`)

// TestCommandsAreDocumented: each command of Leash's own has a heading.
func TestCommandsAreDocumented(t *testing.T) {
	var titles []string
	for _, p := range pages(t) {
		for _, paragraph := range p.paragraphs() {
			if paragraph.kind == heading && strings.HasPrefix(p.path, "docs/") {
				titles = append(titles, paragraph.text)
			}
		}
	}
	commands := ownCommand.FindAllStringSubmatch(sources(t, "proxy/command/")+sources(t, "lockcmd/"), -1)
	if len(commands) < 20 {
		t.Fatalf("found only %d commands: is the pattern still right?", len(commands))
	}
	for _, m := range commands {
		name := strings.ToUpper(strings.Replace(m[1], "|", " ", 1))
		if !slices.ContainsFunc(titles, func(title string) bool { return strings.Trim(title, "`") == name }) {
			t.Errorf("no page of docs/ has a heading %s", name)
		}
	}
}

// sources is the Go source below a folder, without tests.
func sources(t *testing.T, folder string) string {
	t.Helper()
	var b strings.Builder
	for _, path := range files(t, ".go") {
		if strings.HasPrefix(path, folder) && !strings.HasSuffix(path, "_test.go") {
			b.WriteString(read(t, path))
		}
	}
	return b.String()
}

var (
	flagOfHelp = regexp.MustCompile(`(?m)^  (--[a-z-]+)`)
	flagOfPage = regexp.MustCompile(`^(--[a-z][a-z-]+)\b`)
	codeOfPage = regexp.MustCompile(`\bleash [^\n]*?(--[a-z][a-z-]+)`)
)

// flagsOfOthers are flags of other programs that the pages name without the program.
var flagsOfOthers = []string{
	"--drop", "--rate", "--tls", // of the tests
	"--for", "--forget", "--grace", "--other", "--sabotage", "--only", "--round", "--rounds", "--seed", "--verbose", // of the tests
	"--flag",                                         // any
	"--rdb", "--functions-rdb", "--replica", "--ldb", // redis-cli
}

// TestFlagsAreDocumented: docs/configuration.md has each flag, and no page names a flag that Leash
// does not have.
func TestFlagsAreDocumented(t *testing.T) {
	help, err := exec.Command(leashtest.Binary(t), "--help-all").Output()
	if err != nil {
		t.Fatal(err)
	}
	var flags []string
	for _, m := range flagOfHelp.FindAllStringSubmatch(string(help), -1) {
		flags = append(flags, m[1])
	}
	if len(flags) < 30 {
		t.Fatalf("found only %d flags: is the pattern still right?", len(flags))
	}
	configuration := read(t, "docs/configuration.md")
	for _, f := range flags {
		if !strings.Contains(configuration, f+"`") && !strings.Contains(configuration, "\n### "+f+"\n") {
			t.Errorf("docs/configuration.md does not have %s", f)
		}
	}
	flags = append(flags, flagsOfCommands(t)...)
	for _, p := range pages(t) {
		named := p.spans()
		for _, b := range p.blocks {
			for _, m := range codeOfPage.FindAllStringSubmatch(strings.Join(b.lines, "\n"), -1) {
				named = append(named, m[1])
			}
		}
		for _, name := range named {
			m := flagOfPage.FindStringSubmatch(name)
			if m != nil && !slices.Contains(flags, m[1]) && !slices.Contains(flagsOfOthers, m[1]) {
				t.Errorf("%s names the flag %s, which Leash does not have", p.path, m[1])
			}
		}
	}
}

// flagsOfCommands are the flags of leash lock and the other commands of the binary.
func flagsOfCommands(t *testing.T) (flags []string) {
	for _, command := range []string{"lock", "elect", "locks"} {
		help, err := exec.Command(leashtest.Binary(t), command, "--help").Output()
		if err != nil {
			t.Fatal(err)
		}
		flags = append(flags, regexp.MustCompile(`--[a-z-]+`).FindAllString(string(help), -1)...)
	}
	return flags
}
