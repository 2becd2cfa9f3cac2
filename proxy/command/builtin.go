package command

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
)

//go:embed commands.txt
var builtinCommands string

// BuiltinVersion is the version of Redis that commands.txt describes.
const BuiltinVersion = "7.0.15"

func builtin() []*Command {
	var commands []*Command
	for line := range strings.Lines(builtinCommands) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		c, err := parseCommand(fields)
		if err != nil {
			panic("command: commands.txt: " + err.Error())
		}
		commands = append(commands, c)
	}
	return commands
}

func parseCommand(fields []string) (*Command, error) {
	if len(fields) < 3 {
		return nil, fmt.Errorf("%v: too short", fields)
	}
	arity, err := strconv.Atoi(fields[1])
	if err != nil {
		return nil, err
	}
	c := &Command{Name: fields[0], Arity: arity}
	c.setFlags(strings.Split(fields[2], ","))
	for _, f := range fields[3:] {
		k, err := parseKeySpec(f)
		if err != nil {
			return nil, err
		}
		c.Keys = append(c.Keys, k)
	}
	return c, nil
}
