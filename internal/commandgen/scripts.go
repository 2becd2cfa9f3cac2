package commandgen

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
)

// scripts give the same reply wherever their keys are.
var scripts = []string{
	"return 1",
	"return {KEYS[1], ARGV[1], redis.call('EXISTS', KEYS[1])}",
	"return redis.call('INCR', KEYS[1])",
	"return redis.pcall('LPUSH', KEYS[1], ARGV[1])",
	"return {1, {2, 'three', false}, 4.9}",
	"return redis.error_reply('MY error')",
	"return redis.status_reply('FINE')",
	"redis.setresp(3) return {map={a=1}}",
	"return {double=3.25}",
	"return redis.call('NOSUCH')",
	"return nope.field",
	"#!lua flags=no-writes\nreturn redis.call('SET', KEYS[1], ARGV[1])",
	"return cjson.encode({KEYS[1], #ARGV})",
}

// Scripts are the scripts that are loaded and run.
func Scripts() []string { return slices.Clone(scripts) }

func sha(script string) string {
	sum := sha1.Sum([]byte(script))
	return hex.EncodeToString(sum[:])
}

// call makes the arguments of EVAL and similar commands.
func (g *Generator) call(what string) []string {
	keys := g.keys(anyKey)
	if g.chance(0.2) {
		keys = nil
	}
	args := append([]string{what, strconv.Itoa(len(keys))}, keys...)
	for range g.rng.IntN(3) {
		args = append(args, g.word())
	}
	return args
}

const libraries = 3

func (g *Generator) library() string { return "lib" + strconv.Itoa(g.rng.IntN(libraries)) }

func (g *Generator) function() string {
	return g.library() + g.pick("_get", "_set", "_none")
}

func (g *Generator) loadLibrary() []string {
	if g.chance(0.1) {
		return []string{g.pick("return 1", "#!lua name=lib0\nbroken(", "#!python name=x\n")}
	}
	code := library(g.rng.IntN(libraries), g.rng.IntN(3))
	if g.chance(0.7) {
		return []string{"REPLACE", code}
	}
	return []string{code}
}

// library is the source of a library of two functions.
func library(number, version int) string {
	return fmt.Sprintf(`#!lua name=lib%[1]d
redis.register_function{function_name='lib%[1]d_get', flags={'no-writes'}, callback=function(keys, args)
  return {%[2]d, #keys, keys[1] and redis.call('EXISTS', keys[1])}
end}
redis.register_function('lib%[1]d_set', function(keys, args)
  return redis.call('SET', keys[1], args[1])
end)
`, number, version)
}
