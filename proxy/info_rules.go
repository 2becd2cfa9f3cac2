package proxy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// infoRule makes one value of a field from the values that several masters gave.
type infoRule func(r *infoReport, name string) (value string, ok bool)

// infoRuleOf returns the rule for a field. It is nil for a field that describes a server. For such
// a field the value of any node will do.
func infoRuleOf(name string) infoRule {
	switch {
	case infoRules[name] != nil:
		return infoRules[name]
	case strings.HasSuffix(name, "_human") && infoRules[strings.TrimSuffix(name, "_human")] != nil:
		return humanInfo
	case strings.HasPrefix(name, "db") && strings.Trim(name[2:], "0123456789") == "",
		strings.HasPrefix(name, "cmdstat_"), strings.HasPrefix(name, "errorstat_"):
		return sumFields
	}
	return nil
}

var infoRules = makeInfoRules()

func makeInfoRules() map[string]infoRule {
	rules := map[string]infoRule{
		"used_memory_peak_perc":    quotient("used_memory", "used_memory_peak", 100, "%"),
		"mem_fragmentation_ratio":  quotient("used_memory_rss", "used_memory", 1, ""),
		"rdb_last_save_time":       pick(func(a, b float64) bool { return a < b }),
		"used_memory_dataset_perc": nil, // no rule: the value of the first master is shown
	}
	for name := range strings.FieldsSeq(`
		used_memory used_memory_rss used_memory_peak used_memory_overhead used_memory_startup used_memory_dataset used_memory_lua
		used_memory_vm_eval used_memory_scripts_eval used_memory_vm_functions used_memory_vm_total used_memory_functions used_memory_scripts
		allocator_allocated allocator_active allocator_resident allocator_frag_bytes allocator_rss_bytes rss_overhead_bytes maxmemory
		mem_fragmentation_bytes mem_not_counted_for_evict mem_replication_backlog mem_total_replication_buffers mem_clients_slaves
		mem_clients_normal mem_cluster_links mem_aof_buffer lazyfree_pending_objects lazyfreed_objects
		rdb_changes_since_last_save rdb_saves rdb_last_load_keys_expired rdb_last_load_keys_loaded aof_rewrites
		current_save_keys_processed current_save_keys_total aof_current_size aof_base_size aof_buffer_length
		total_commands_processed instantaneous_ops_per_sec total_net_input_bytes total_net_output_bytes total_net_repl_input_bytes
		total_net_repl_output_bytes instantaneous_input_kbps instantaneous_output_kbps instantaneous_input_repl_kbps
		instantaneous_output_repl_kbps sync_full sync_partial_ok sync_partial_err expired_keys expired_subkeys expired_time_cap_reached_count
		expire_cycle_cpu_milliseconds evicted_keys evicted_clients evicted_scripts total_eviction_exceeded_time keyspace_hits keyspace_misses
		total_forks migrate_cached_sockets slave_expires_tracked_keys active_defrag_hits active_defrag_misses active_defrag_key_hits
		active_defrag_key_misses total_active_defrag_time unexpected_error_replies total_error_replies dump_payload_sanitizations
		total_reads_processed total_writes_processed io_threaded_reads_processed io_threaded_writes_processed reply_buffer_shrinks
		reply_buffer_expands used_cpu_sys used_cpu_user used_cpu_sys_children used_cpu_user_children used_cpu_sys_main_thread
		used_cpu_user_main_thread`) {
		rules[name] = sumInfo
	}
	for name := range strings.FieldsSeq(`
		loading async_loading rdb_bgsave_in_progress aof_rewrite_in_progress aof_rewrite_scheduled current_fork_perc current_cow_peak
		current_cow_size rdb_current_bgsave_time_sec aof_current_rewrite_time_sec aof_rewrites_consecutive_failures module_fork_in_progress
		active_defrag_running current_eviction_exceeded_time`) {
		rules[name] = pick(func(a, b float64) bool { return a > b })
	}
	for _, name := range []string{"rdb_last_bgsave_status", "aof_last_bgrewrite_status", "aof_last_write_status"} {
		rules[name] = worst
	}
	return rules
}

// sumInfo adds up the values. The sum has as many decimals as the first value.
func sumInfo(r *infoReport, name string) (string, bool) { return sumOf(r.all(name)) }

func sumOf(values []string) (string, bool) {
	sum, whole := 0.0, int64(0)
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
		sum, whole = sum+f, whole+n
	}
	if decimals == 0 {
		return strconv.FormatInt(whole, 10), true
	}
	return strconv.FormatFloat(sum, 'f', decimals, 64), true
}

// pick returns a rule that chooses the value that is better than all others.
func pick(better func(a, b float64) bool) infoRule {
	return func(r *infoReport, name string) (string, bool) {
		var best string
		var bestN float64
		for i, v := range r.all(name) {
			n, err := strconv.ParseFloat(v, 64)
			if err != nil {
				return "", false
			}
			if i == 0 || better(n, bestN) {
				best, bestN = v, n
			}
		}
		return best, true
	}
}

// worst returns "ok" if all values are "ok". Otherwise it returns the first other value.
func worst(r *infoReport, name string) (string, bool) {
	values := r.all(name)
	i := slices.IndexFunc(values, func(v string) bool { return v != "ok" })
	return values[max(i, 0)], true
}

// quotient returns a rule that divides the sums of two fields.
func quotient(over, under string, factor float64, unit string) infoRule {
	return func(r *infoReport, _ string) (string, bool) {
		a, ok1 := sumOf(r.all(over))
		b, ok2 := sumOf(r.all(under))
		x, _ := strconv.ParseFloat(a, 64)
		y, _ := strconv.ParseFloat(b, 64)
		return fmt.Sprintf("%.2f%s", factor*x/y, unit), ok1 && ok2 && y > 0
	}
}

// humanInfo writes the sum of the field without "_human" with a unit, as Redis does.
func humanInfo(r *infoReport, name string) (string, bool) {
	sum, ok := sumOf(r.all(strings.TrimSuffix(name, "_human")))
	n, err := strconv.ParseFloat(sum, 64)
	if !ok || err != nil {
		return "", false
	}
	if n < 1024 {
		return sum + "B", true
	}
	unit := -1
	for ; n >= 1024 && unit < 4; unit++ {
		n /= 1024
	}
	return fmt.Sprintf("%.2f%c", n, "KMGTP"[unit]), true
}

// sumFields adds up values of the form "keys=1,expires=0,avg_ttl=0", field by field. It computes
// new means.
func sumFields(r *infoReport, name string) (string, bool) {
	sums := make(map[string]int64)
	mean := 0.0
	var order []string
	for _, value := range r.all(name) {
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
	return strings.Join(order, ","), true
}
