package transport

import (
	"regexp"
	"slices"
	"strings"
)

// join is the text of a script from the texts of its files, in order. It leaves out comments,
// because Redis keeps the text of every script. It leaves out functions that nobody calls, because
// every call of a script makes all its functions anew.
func join(files []string) string {
	var kept []string
	used := make(map[string]bool)
	for _, b := range slices.Backward(blocksOf(files)) {
		if b.function != "" && !used[b.function] {
			continue
		}
		for _, name := range luaName.FindAllString(b.code, -1) {
			used[name] = true
		}
		kept = append(kept, b.code)
	}
	slices.Reverse(kept)
	return strings.Join(kept, "")
}

// A block is a function that begins in the first column, or a line outside of these functions.
type block struct {
	function string // the function's name, "" for a line
	code     string // whole lines without indentation
}

var (
	luaFunction = regexp.MustCompile(`^local function (\w+)\(`)
	luaName     = regexp.MustCompile(`[A-Za-z_]\w*`)
)

// blocksOf are the blocks of the files. A function ends with its line, or with an "end" in the
// first column.
func blocksOf(files []string) (blocks []block) {
	inside := false
	for _, text := range files {
		for line := range strings.Lines(text) {
			line = strings.TrimRight(line, " \t\r\n")
			code := strings.TrimSpace(line)
			switch {
			case code == "" || strings.HasPrefix(code, "--"):
				continue
			case inside:
				blocks[len(blocks)-1].code += code + "\n"
				inside = line != "end"
				continue
			}
			b := block{code: code + "\n"}
			if m := luaFunction.FindStringSubmatch(line); m != nil {
				b.function, inside = m[1], !strings.HasSuffix(code, " end")
			}
			blocks = append(blocks, b)
		}
	}
	return blocks
}
