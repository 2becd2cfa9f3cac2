package command

import "leash/proxy/usage"

// Uses of the commands for operators.
var (
	watchesLeash = &usage.KeyUse{
		Flags: []string{"admin", "noscript", "loading", "stale"}, Categories: []string{"@admin", "@slow", "@dangerous"},
		Reads: true,
	}
	helps = &usage.KeyUse{Flags: []string{"loading", "stale"}, Categories: []string{"@slow"}, Reads: true}
)

// Arguments of the lists.
var (
	matchArg = usage.Optional(usage.Arg("MATCH", "pattern"))
	limitArg = usage.Optional(usage.Arg("LIMIT", "offset"), usage.Arg("", "count"))
)

// admin is LEASH, with the commands for operators in the order of LEASH HELP. Package proxy says
// which right each needs.
var admin = usage.Command{
	Name: "leash", Arity: -2, Use: helps,
	Summary: "Shows and steers this Leash; for operators",
	Subs: []usage.Command{
		{Name: "leash|nodes", Arity: 2, Use: watchesLeash, Summary: "Lists the nodes of Redis and their links"},
		{
			Name: "leash|sessions", Arity: -2, Use: watchesLeash,
			Summary:   "Lists the clients of this Leash, the oldest first",
			Arguments: []usage.Argument{matchArg, limitArg},
		},
		{
			Name: "leash|holds", Arity: -2, Use: watchesLeash,
			Summary:   "Lists the locks and permits held through this Leash, the oldest first",
			Arguments: []usage.Argument{matchArg, limitArg},
		},
		{
			Name: "leash|waiters", Arity: -2, Use: watchesLeash,
			Summary:   "Lists the commands that wait on this Leash, the longest wait first",
			Arguments: []usage.Argument{matchArg, limitArg},
		},
		{Name: "leash|stats", Arity: 2, Use: watchesLeash, AsMap: true, Summary: "Returns the fields of INFO leash"},
		{
			Name: "leash|loglevel", Arity: -2, Use: watchesLeash,
			Summary: "Returns the lowest level that is logged, or sets it",
			Arguments: []usage.Argument{
				usage.Optional(usage.OneWord("", "DEBUG", "INFO", "WARN", "ERROR")),
			},
		},
		{
			Name: "leash|config", Arity: -4, Use: watchesLeash,
			Summary: "Returns the settings of this Leash whose names match, or changes some while it runs",
			Arguments: []usage.Argument{usage.OneOf("",
				usage.Repeated(usage.Arg("GET", "pattern")),
				usage.Together(usage.Word("SET"),
					usage.Repeated(usage.Together(usage.Arg("", "name"), usage.Arg("", "value")))),
			)},
		},
		{
			Name: "leash|slowlog", Arity: -3, Use: watchesLeash,
			Summary: "Lists the last slow commands of this Leash: where each of them spent its time",
			Arguments: []usage.Argument{usage.OneOf("",
				usage.Together(usage.Word("GET"), usage.Optional(usage.Arg("", "count"))),
				usage.Word("LEN"), usage.Word("RESET"), usage.Word("HELP"),
			)},
		},
		{Name: "leash|drain", Arity: 2, Use: watchesLeash, Summary: "Stops this Leash in order, as SIGTERM does"},
		{Name: "leash|help", Arity: 2, Use: helps, Summary: "Prints this help"},
	},
}
