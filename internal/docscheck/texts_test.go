package docscheck

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const troubleshooting = "docs/troubleshooting.md"

// TestTextsAreExplained: docs/troubleshooting.md has every error reply of Leash, every text of its
// log at WARN or ERROR, and every error that it can log or end with.
func TestTextsAreExplained(t *testing.T) {
	spans := parsePage(troubleshooting, read(t, troubleshooting)).spans()
	found, hidden := 0, make(map[string]bool)
	for _, text := range texts(t) {
		if internalTexts[text.shown()] {
			hidden[text.shown()] = true
			continue
		}
		found++
		pattern := text.pattern()
		if !slices.ContainsFunc(spans, func(span string) bool {
			return strings.Contains(span, text.parts[0]) && pattern.MatchString(span)
		}) {
			t.Errorf("%s: %s does not explain: %s", text.at, troubleshooting, text.shown())
		}
	}
	for text := range internalTexts {
		if !hidden[text] {
			t.Errorf("internalTexts has a text that is not in the source: %s", text)
		}
	}
	if found < 200 {
		t.Errorf("found only %d texts: does the search still fit the source?", found)
	}
}

// internalTexts never leave the process. The code compares them with something, or replaces them by
// another text.
var internalTexts = map[string]bool{
	// Parts of replies that Leash looks for.
	"ERR No such user ": true, "NOAUTH ": true, "NOPERM ": true, "UNRENEWED ": true,
	"ERR The user executing the script can't run this command or subcommand":  true,
	"ERR The user executing the script can't access at least one of the keys": true,
	"NOPERM this user has no permissions to access one of the keys":           true,
	"NOPERM No permissions to access a key":                                   true,
	"ERR wrong number of arguments for 'auth' command":                        true,
	// Errors that another text replaces.
	"upstream: dropped before it was sent":    true,
	"upstream: no connection for scripts":     true,
	"proxy: server is stopping":               true,
	"lockcmd: outcome unknown":                true,
	"lockcmd: Redis did not take the request": true,
	"lockcmd: no such hold":                   true,
	"lockcmd: another holder has the lock":    true,
	"lockcmd: the hold is renewed":            true,
	// Errors of a programmer.
	"…: too short":                  true,
	"key spec …: …":                 true,
	"key spec …: unknown kind":      true,
	"upstream: no address":          true,
	"upstream: unknown mode …":      true,
	"proxy: server has been closed": true,
}

// A sourceText is a text of the source that people may read. Parts of it, such as a key, are not
// known before it is shown.
type sourceText struct {
	at    string // file:line
	parts []string
}

// shown is the text with … for the unknown parts.
func (s sourceText) shown() string { return strings.Join(s.parts, "…") }

// pattern matches the text as a page may quote it, perhaps with words before it.
func (s sourceText) pattern() *regexp.Regexp {
	quoted := make([]string, len(s.parts))
	for i, part := range s.parts {
		quoted[i] = regexp.QuoteMeta(part)
	}
	end := "$"
	if strings.HasSuffix(s.shown(), " '") { // the rest is appended elsewhere
		end = ""
	}
	return regexp.MustCompile("^(?:.* )?" + strings.Join(quoted, ".*?") + end)
}

// texts are the texts of all packages of the program.
func texts(t *testing.T) (all []sourceText) {
	t.Helper()
	list := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{with .Module}}{{if .Main}}{{$.Dir}}{{end}}{{end}}{{end}}", ".")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range strings.Fields(string(out)) {
		set := token.NewFileSet()
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		c := &collector{set: set, calls: make(map[string][]*ast.CallExpr)}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			c.files = append(c.files, file)
		}
		all = append(all, c.collect(t)...)
	}
	scripts, err := filepath.Glob(filepath.Join(root, "lockcmd/script/lua/*.lua"))
	if err != nil || len(scripts) == 0 {
		t.Fatal("no Lua scripts", err)
	}
	for _, path := range scripts {
		text := read(t, strings.TrimPrefix(path, root+"/"))
		for _, m := range luaError.FindAllStringSubmatch(text, -1) {
			all = append(all, sourceText{filepath.Base(path), luaParts(m[1])})
		}
	}
	return all
}

var (
	luaError  = regexp.MustCompile(`(?:error_reply\(|err = )("[^\n]*"|'[^\n]*')`)
	luaJoined = regexp.MustCompile(`["'] \.\. [^"']+ \.\. ["']`)
)

// luaParts are the fixed parts of a Lua string, which may be joined with values by "..".
func luaParts(text string) []string {
	parts := strings.Split(luaJoined.ReplaceAllString(text, "\x00"), "\x00")
	for i := range parts {
		parts[i] = strings.TrimFunc(parts[i], func(r rune) bool { return i == 0 && r == rune(text[0]) })
	}
	last := len(parts) - 1
	parts[last] = strings.TrimSuffix(parts[last], text[:1])
	return parts
}

// A collector finds the texts of one package.
type collector struct {
	set   *token.FileSet
	files []*ast.File
	calls map[string][]*ast.CallExpr // by the function's name
	found []sourceText
}

func (c *collector) collect(t *testing.T) []sourceText {
	for _, file := range c.files {
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				c.calls[calledName(call)] = append(c.calls[calledName(call)], call)
			}
			return true
		})
	}
	for _, file := range c.files {
		for _, decl := range file.Decls {
			c.declaration(t, decl)
		}
	}
	return c.found
}

// comparing are functions whose argument is only compared with what another program said.
var comparing = []string{
	"HasPrefix", "HasSuffix", "Contains", "HasErrorPrefix", "CutPrefix", "TrimPrefix", "hasCode", "hasErrorCode", "Replace", "panic",
}

func (c *collector) declaration(t *testing.T, decl ast.Decl) {
	function, _ := decl.(*ast.FuncDecl)
	ast.Inspect(decl, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			return c.call(t, function, n)
		case *ast.CompositeLit:
			if name, ok := n.Type.(*ast.Ident); ok && name.Name == "Refusal" && len(n.Elts) == 1 {
				c.add(n.Pos(), "UPSTREAMDOWN "+parts(n.Elts[0])[0]+", the command was not executed")
			}
		case *ast.BinaryExpr, *ast.BasicLit:
			if p := parts(n.(ast.Expr)); isErrorReply(p[0]) {
				c.add(n.Pos(), p...)
				return false
			}
			_, isSum := n.(*ast.BinaryExpr)
			return !isSum || n.(*ast.BinaryExpr).Op != token.ADD || !isText(n.(ast.Expr))
		}
		return true
	})
}

// call checks a call, and reports whether to check its arguments.
func (c *collector) call(t *testing.T, in *ast.FuncDecl, call *ast.CallExpr) bool {
	name := calledName(call)
	switch {
	case slices.Contains(comparing, name):
		return false
	case isLog(call) && (name == "Warn" || name == "Error"):
		c.message(t, in, call.Args[0])
	case isLog(call) && name == "Log" && !isLevel(call.Args[1], "LevelDebug") && !isLevel(call.Args[1], "LevelInfo"):
		c.message(t, in, call.Args[2])
	case name == "ProtocolError" && isText(call.Args[0]):
		c.add(call.Pos(), append([]string{"ERR Protocol error: " + parts(call.Args[0])[0]}, parts(call.Args[0])[1:]...)...)
	case isError(call):
		c.add(call.Pos(), parts(call.Args[0])...)
		return false
	case name == "Sprintf" && isText(call.Args[0]):
		if p := parts(call.Args[0]); isErrorReply(p[0]) {
			c.add(call.Pos(), p...)
		}
		return false
	}
	return true
}

// message adds the text of a log line. If the text is a parameter of the function, it adds the
// texts of the callers.
func (c *collector) message(t *testing.T, in *ast.FuncDecl, arg ast.Expr) {
	if isText(arg) {
		c.add(arg.Pos(), parts(arg)...)
		return
	}
	at := c.set.Position(arg.Pos())
	name, ok := arg.(*ast.Ident)
	if !ok || in == nil {
		t.Errorf("%s: the text of a log line is not a string", at)
		return
	}
	position := slices.Index(parameters(in), name.Name)
	callers := c.calls[in.Name.Name]
	if position < 0 || len(callers) == 0 {
		t.Errorf("%s: no caller gives the text of a log line", at)
		return
	}
	for _, call := range callers {
		if isText(call.Args[position]) {
			c.add(call.Pos(), parts(call.Args[position])...)
		} else {
			t.Errorf("%s: the text of a log line is not a string", c.set.Position(call.Pos()))
		}
	}
}

func parameters(f *ast.FuncDecl) (names []string) {
	for _, field := range f.Type.Params.List {
		for _, name := range field.Names {
			names = append(names, name.Name)
		}
	}
	return names
}

// add adds a text if it contains words.
func (c *collector) add(at token.Pos, parts ...string) {
	letters := strings.Count(strings.Join(parts, ""), "")
	if letters < 8 {
		return
	}
	p := c.set.Position(at)
	if isErrorReply(parts[0]) {
		parts[0] = strings.TrimPrefix(parts[0], "-")
	}
	last := len(parts) - 1
	parts[last] = strings.TrimSuffix(parts[last], "\r\n")
	c.found = append(c.found, sourceText{fmt.Sprintf("%s:%d", filepath.Base(p.Filename), p.Line), parts})
}

func calledName(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// isLog reports whether a method of a logger is called.
func isLog(call *ast.CallExpr) bool {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 {
		return false
	}
	switch x := f.X.(type) {
	case *ast.Ident:
		return x.Name == "log" || x.Name == "slog"
	case *ast.SelectorExpr:
		return x.Sel.Name == "log"
	}
	return false
}

func isLevel(x ast.Expr, name string) bool {
	s, ok := x.(*ast.SelectorExpr)
	return ok && s.Sel.Name == name
}

func isError(call *ast.CallExpr) bool {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := f.X.(*ast.Ident)
	return ok && len(call.Args) > 0 && isText(call.Args[0]) &&
		(x.Name == "errors" && f.Sel.Name == "New" || x.Name == "fmt" && f.Sel.Name == "Errorf")
}

var errorReply = regexp.MustCompile(`^-?(?:ERR|LOCK[A-Z]+|SEM[A-Z]+|UPSTREAM[A-Z]+|UNBLOCKED|NO[A-Z]+|WRONG[A-Z]+|EXECABORT|CROSSSLOT|TRYAGAIN|CLUSTERDOWN|READONLY) \S*`)

func isErrorReply(text string) bool { return errorReply.MatchString(text) }

// isText reports whether an expression is a string, perhaps one joined from several.
func isText(x ast.Expr) bool {
	return slices.ContainsFunc(parts(x), func(p string) bool { return strings.TrimSpace(p) != "" })
}

var verb = regexp.MustCompile(`%[+#]?[a-zA-Z]`)

// parts are the fixed parts of a string, split where a value is put in.
func parts(x ast.Expr) []string {
	switch x := x.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(x.Value); err == nil && x.Kind == token.STRING {
			return verb.Split(text, -1)
		}
	case *ast.ParenExpr:
		return parts(x.X)
	case *ast.BinaryExpr:
		if x.Op == token.ADD {
			left, right := parts(x.X), parts(x.Y)
			joined := left[len(left)-1] + right[0]
			return append(append(slices.Clone(left[:len(left)-1]), joined), right[1:]...)
		}
	}
	return []string{"", ""}
}

// TestParts: the fixed parts of a joined string are found.
func TestParts(t *testing.T) {
	for source, want := range map[string]string{
		`"ERR no " + name + " here"`: "ERR no … here",
		`"a %d of %q" + "b"`:         "a … of …b",
		`name`:                       "…",
		`"one"`:                      "one",
	} {
		x, err := parser.ParseExpr(source)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(parts(x), "…"); got != want {
			t.Errorf("%s: got %q, want %q", source, got, want)
		}
	}
	for quoted, want := range map[string]bool{"no KEY is held": true, "no is held": false, "no KEY is held now": false} {
		if got := (sourceText{parts: []string{"no ", " is held"}}).pattern().MatchString(quoted); got != want {
			t.Errorf("%q: got %v, want %v", quoted, got, want)
		}
	}
	lua := luaParts(`"NOPERM may not '" .. name .. "' it"`)
	if got := strings.Join(lua, "…"); got != "NOPERM may not '…' it" {
		t.Errorf("got %q", got)
	}
}
