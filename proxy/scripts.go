package proxy

import "leash/proxy/resp"

// scriptTreatments are scripts and functions.
func scriptTreatments() treatments {
	return treatments{
		"EVAL": {(*session).relay, relayed, ""}, "EVAL_RO": {(*session).relay, relayed, ""},
		"EVALSHA": {(*session).relay, relayed, ""}, "EVALSHA_RO": {(*session).relay, relayed, ""},
		"FCALL": {(*session).relay, relayed, ""}, "FCALL_RO": {(*session).relay, relayed, ""},
		"SCRIPT|LOAD": {(*session).scriptLoad, everyNode, ""},
	}
}

// scriptLoad loads a script on every master, so that EVALSHA finds it whatever
// its keys are.
func (s *session) scriptLoad(c *command, cmd resp.Command) bool {
	if !c.arityOK(cmd.Args) {
		return s.wrongArity(c)
	}
	return s.everywhere(cmd, mergeOK)
}
