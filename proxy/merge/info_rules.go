package merge

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// unionSections are the sections of INFO whose fields name databases, commands or errors.
var unionSections = map[string]bool{"Keyspace": true, "Commandstats": true, "Errorstats": true}

// infoTable says how the values of several masters become one. A field that is not in it describes
// a server. For such a field the value of any master will do. In a name, # stands for digits and *
// for any text.
var infoTable = []struct {
	how    infoHow
	fields string
}{
	{hidden, `slave# listener*`}, // clients cannot reach replicas through Leash
	{sum, `
		used_memory used_memory_rss used_memory_peak used_memory_overhead used_memory_startup
		used_memory_dataset used_memory_lua used_memory_vm_eval used_memory_scripts_eval
		used_memory_vm_functions used_memory_vm_total used_memory_functions used_memory_scripts
		allocator_allocated allocator_active allocator_resident allocator_frag_bytes
		allocator_rss_bytes rss_overhead_bytes maxmemory mem_fragmentation_bytes
		mem_not_counted_for_evict mem_replication_backlog mem_total_replication_buffers
		mem_clients_slaves mem_clients_normal mem_cluster_links mem_aof_buffer
		lazyfree_pending_objects lazyfreed_objects rdb_changes_since_last_save rdb_saves
		rdb_last_load_keys_expired rdb_last_load_keys_loaded aof_rewrites
		current_save_keys_processed current_save_keys_total aof_current_size aof_base_size
		aof_buffer_length total_commands_processed instantaneous_ops_per_sec total_net_input_bytes
		total_net_output_bytes total_net_repl_input_bytes total_net_repl_output_bytes
		instantaneous_input_kbps instantaneous_output_kbps instantaneous_input_repl_kbps
		instantaneous_output_repl_kbps sync_full sync_partial_ok sync_partial_err expired_keys
		expired_subkeys expired_time_cap_reached_count expire_cycle_cpu_milliseconds evicted_keys
		evicted_clients evicted_scripts total_eviction_exceeded_time keyspace_hits keyspace_misses
		total_forks migrate_cached_sockets slave_expires_tracked_keys active_defrag_hits
		active_defrag_misses active_defrag_key_hits active_defrag_key_misses
		total_active_defrag_time unexpected_error_replies total_error_replies
		dump_payload_sanitizations total_reads_processed total_writes_processed
		io_threaded_reads_processed io_threaded_writes_processed reply_buffer_shrinks
		reply_buffer_expands used_cpu_sys used_cpu_user used_cpu_sys_children
		used_cpu_user_children used_cpu_sys_main_thread used_cpu_user_main_thread`},
	{largest, `
		loading async_loading rdb_bgsave_in_progress aof_rewrite_in_progress aof_rewrite_scheduled
		current_fork_perc current_cow_peak current_cow_size rdb_current_bgsave_time_sec
		aof_current_rewrite_time_sec aof_rewrites_consecutive_failures module_fork_in_progress
		active_defrag_running current_eviction_exceeded_time`},
	{smallest, `rdb_last_save_time`},
	{worst, `rdb_last_bgsave_status aof_last_bgrewrite_status aof_last_write_status`},
	{sumPairs, `db# cmdstat_* errorstat_*`},
	{percentage, `used_memory_peak_perc=used_memory/used_memory_peak`},
	{ratio, `mem_fragmentation_ratio=used_memory_rss/used_memory`},
	{human, `
		used_memory_human=used_memory used_memory_rss_human=used_memory_rss
		used_memory_peak_human=used_memory_peak used_memory_lua_human=used_memory_lua
		used_memory_vm_total_human=used_memory_vm_total
		used_memory_scripts_human=used_memory_scripts maxmemory_human=maxmemory`},
}

// infoHow is a way to make one value from several.
type infoHow uint8

const (
	anyValue infoHow = iota
	hidden           // the field is not shown
	sum
	largest
	smallest
	worst      // "ok" if all are
	sumPairs   // values such as "keys=1,expires=0"
	percentage // of the sums of two other fields
	ratio      // of the sums of two other fields
	human      // the sum of another field, with a unit
)

type infoRule struct {
	how       infoHow
	of, under string // the fields whose values it uses
}

// infoPattern is the rule for the fields whose names begin with a prefix. If digits is set, digits
// and nothing else follow.
type infoPattern struct {
	prefix string
	digits bool
	how    infoHow
}

func (p infoPattern) matches(name string) bool {
	rest, ok := strings.CutPrefix(name, p.prefix)
	return ok && (!p.digits || rest != "" && strings.Trim(rest, "0123456789") == "")
}

var infoRules, infoPatterns = makeInfoRules()

func makeInfoRules() (rules map[string]infoRule, patterns []infoPattern) {
	rules = make(map[string]infoRule)
	for _, row := range infoTable {
		for field := range strings.FieldsSeq(row.fields) {
			if prefix := strings.TrimRight(field, "#*"); prefix != field {
				patterns = append(patterns, infoPattern{prefix, strings.HasSuffix(field, "#"), row.how})
				continue
			}
			name, of, ok := strings.Cut(field, "=")
			if !ok {
				of = name
			}
			of, under, _ := strings.Cut(of, "/")
			rules[name] = infoRule{row.how, of, under}
		}
	}
	return rules, patterns
}

func infoRuleOf(name string) infoRule {
	if rule, ok := infoRules[name]; ok {
		return rule
	}
	rule := infoRule{of: name}
	if i := slices.IndexFunc(infoPatterns, func(p infoPattern) bool { return p.matches(name) }); i >= 0 {
		rule.how = infoPatterns[i].how
	}
	return rule
}

// merge makes one value of a field from the values that several masters gave. over are the values
// of the rule's first field, and under those of its second.
func (r infoRule) merge(over, under []string) (value string, ok bool) {
	switch r.how {
	case sum:
		return sumOf(over)
	case largest:
		return extreme(over, 1)
	case smallest:
		return extreme(over, -1)
	case worst:
		i := slices.IndexFunc(over, func(v string) bool { return v != "ok" })
		return over[max(i, 0)], true
	case sumPairs:
		return sumOfPairs(over), true
	case percentage:
		return quotient(over, under, 100, "%")
	case ratio:
		return quotient(over, under, 1, "")
	case human:
		return withUnit(over)
	}
	return "", false
}

// sumOf adds up the values. The sum has as many decimals as the first value.
func sumOf(values []string) (string, bool) {
	total, whole := 0.0, int64(0)
	decimals := 0
	for i, v := range values {
		f, err := strconv.ParseFloat(v, 64)
		if err != nil {
			return "", false
		}
		if _, fraction, ok := strings.Cut(v, "."); ok && i == 0 {
			decimals = len(fraction)
		}
		n, _ := strconv.ParseInt(v, 10, 64)
		total, whole = total+f, whole+n
	}
	if decimals == 0 {
		return strconv.FormatInt(whole, 10), true
	}
	return strconv.FormatFloat(total, 'f', decimals, 64), true
}

// extreme returns the largest value if sign is 1, and the smallest if sign is -1.
func extreme(values []string, sign float64) (best string, ok bool) {
	var bestN float64
	for i, v := range values {
		n, err := strconv.ParseFloat(v, 64)
		if err != nil {
			return "", false
		}
		if i == 0 || sign*n > sign*bestN {
			best, bestN = v, n
		}
	}
	return best, true
}

func quotient(over, under []string, factor float64, unit string) (string, bool) {
	a, ok1 := sumOf(over)
	b, ok2 := sumOf(under)
	x, _ := strconv.ParseFloat(a, 64)
	y, _ := strconv.ParseFloat(b, 64)
	return fmt.Sprintf("%.2f%s", factor*x/y, unit), ok1 && ok2 && y > 0
}

// withUnit writes the sum with a unit, as Redis does.
func withUnit(values []string) (string, bool) {
	total, ok := sumOf(values)
	n, err := strconv.ParseFloat(total, 64)
	if !ok || err != nil {
		return "", false
	}
	if !(n >= 1024) { // also NaN
		return total + "B", true
	}
	unit := -1
	for ; n >= 1024 && unit < 4; unit++ {
		n /= 1024
	}
	return fmt.Sprintf("%.2f%c", n, "KMGTP"[unit]), true
}

// sumOfPairs adds up values of the form "keys=1,expires=0,avg_ttl=0", field by field. It computes
// new means.
func sumOfPairs(values []string) string {
	sums := make(map[string]int64)
	mean := 0.0
	var order []string
	for _, value := range values {
		of := make(map[string]int64)
		for pair := range strings.SplitSeq(value, ",") {
			field, number, _ := strings.Cut(pair, "=")
			if !slices.Contains(order, field) {
				order = append(order, field)
			}
			n, _ := strconv.ParseInt(number, 10, 64) // usec_per_call is computed below
			of[field] = n
			sums[field] += n
		}
		mean += float64(of["avg_ttl"]) * float64(of["expires"])
	}
	for i, field := range order {
		switch {
		case field == "usec_per_call" && sums["calls"] > 0:
			order[i] = fmt.Sprintf("%s=%.2f", field, float64(sums["usec"])/float64(sums["calls"]))
		case field == "usec_per_call":
			order[i] = field + "=0.00"
		case field == "avg_ttl" && sums["expires"] > 0:
			order[i] = fmt.Sprintf("%s=%d", field, int64(mean/float64(sums["expires"])))
		default:
			order[i] = fmt.Sprintf("%s=%d", field, sums[field])
		}
	}
	return strings.Join(order, ",")
}
