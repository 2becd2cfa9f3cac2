package metrics

import (
	"time"

	"leash/internal/histogram"
	"leash/lockcmd/script"
	"leash/lockcmd/view"
	"leash/proxy"
)

// families are all series, in the order of docs/metrics.md.
var families = []family{
	// Clients
	single(gauge, "leash_clients", "Clients that are connected now.", func(v *values) int { return v.Clients }),
	single(gauge, "leash_clients_limit", "How many clients may be connected at once.", func(v *values) int { return v.ClientsLimit }),
	single(gauge, "leash_clients_blocked", "Clients that wait in a command that blocks, or for a lock.",
		func(v *values) int { return v.Blocked }),
	single(counter, "leash_client_connections_accepted_total", "Connections that became clients.",
		func(v *values) int64 { return v.Accepted }),
	single(counter, "leash_client_connections_refused_total",
		"Connections beyond --max-clients, or during a stop.", func(v *values) int64 { return v.Refused }),
	labelled(counter, "leash_client_disconnections_total", "Clients whose connection has ended, by the reason.",
		"reason", proxy.DisconnectionReasons(), func(v *values) map[string]int64 { return v.Disconnections }),
	single(counter, "leash_client_received_bytes_total", "Bytes that clients have sent.",
		func(v *values) int64 { return v.ReceivedBytes }),
	single(counter, "leash_client_sent_bytes_total", "Bytes that clients have got.",
		func(v *values) int64 { return v.SentBytes }),
	single(counter, "leash_client_protocol_errors_total", "Clients that were closed because they broke the protocol.",
		func(v *values) int64 { return v.ProtocolErrors }),
	single(counter, "leash_client_header_errors_total", "Connections without a valid header, with --proxy-protocol.",
		func(v *values) int64 { return v.HeaderErrors }),
	single(counter, "leash_client_handshake_errors_total", "Connections whose TLS handshake failed.",
		func(v *values) int64 { return v.HandshakeErrors }),
	labelled(counter, "leash_limit_refusals_total", "Refusals because of a limit of a user, an address, names or memory.",
		"limit", proxy.LimitNames(), func(v *values) map[string]int64 { return v.LimitRefusals }),
	labelled(counter, "leash_limit_delays_total", "Waits because of a rate: of commands, or of new connections.",
		"limit", []string{"commands", "accepts"}, func(v *values) map[string]int64 { return v.LimitDelays }),
	single(gauge, "leash_memory_bytes", "Memory that the process uses, with garbage.",
		func(v *values) int64 { return v.MemoryUsed }),
	single(gauge, "leash_memory_limit_bytes", "The value of --max-memory; 0 without a limit.",
		func(v *values) int64 { return v.MemoryLimit }),

	// Commands
	labelled(counter, "leash_commands_total", "Commands of clients, by the class of docs/commands.md.",
		"class", proxy.CommandClasses(), func(v *values) map[string]int64 { return v.Commands }),
	labelled(counter, "leash_command_errors_total", "Commands that were answered with an error, by the same class.",
		"class", proxy.CommandClasses(), func(v *values) map[string]int64 { return v.Errors }),
	labelled(counter, "leash_command_redirects_total", "Commands that a node of the cluster refused for their slot.",
		"kind", proxy.RedirectKinds(), func(v *values) map[string]int64 { return v.Redirects }),

	// Redis
	single(gauge, "leash_upstream_masters", "Masters that Leash knows.", func(v *values) int { return v.Upstream.Masters }),
	single(gauge, "leash_upstream_masters_usable", "Masters that answer.", func(v *values) int { return v.Upstream.Usable }),
	single(gauge, "leash_upstream_nodes_busy", "Nodes that run a slow script.", func(v *values) int { return v.Upstream.Busy }),
	labelled(gauge, "leash_upstream_links", "Connections to Redis for commands: shared by all clients, "+
		"detour while a shared one gets no answer, pinned for one client.",
		"kind", []string{"shared", "detour", "pinned"}, linksByKind),
	single(gauge, "leash_upstream_pinned_links_limit", "Pinned connections that each node may have.",
		func(v *values) int { return v.Upstream.PinnedLimit }),
	single(counter, "leash_upstream_pinned_links_refused_total", "Pinned connections that the limit has refused.",
		func(v *values) int64 { return v.Upstream.PinsRefused }),
	single(counter, "leash_upstream_connections_lost_total", "Connections that Redis or the network has ended.",
		func(v *values) int64 { return v.Upstream.ConnectionsLost }),
	single(counter, "leash_upstream_logins_refused_total", "Logins of Leash's own user whose password Redis has refused.",
		func(v *values) int64 { return v.Upstream.LoginsRefused }),
	times("leash_upstream_round_trip_seconds", "Time of a PING to a node of Redis, at least one a second for each node.",
		func(v *values) histogram.Snapshot { return v.Upstream.RoundTrips }),
	single(gauge, "leash_subscriptions", "Subscriptions of clients.",
		func(v *values) int { return v.Subscriptions.Listeners }),
	single(gauge, "leash_upstream_subscriptions", "Subscriptions of Leash at Redis, for its clients and for itself.",
		func(v *values) int { return v.Subscriptions.Subscriptions }),
	single(gauge, "leash_upstream_subscription_links", "Connections to Redis for subscriptions.",
		func(v *values) int { return v.Subscriptions.Connections }),

	// Locks
	labelled(gauge, "leash_lock_holds", "Locks and permits that clients of this Leash hold now.",
		"mode", modeNames(), func(v *values) map[string]int64 { return v.Locks.HoldsByMode }),
	single(gauge, "leash_lock_waiters", "Commands that wait for a lock, a permit or a latch now.",
		func(v *values) int64 { return v.Locks.Waiters }),
	labelled(counter, "leash_lock_acquires_total", "Acquires by how they ended: the lock was granted, was taken, "+
		"Redis did not answer in time (LOCKTIMEOUT), too many waited (LOCKLIMIT).",
		"outcome", []string{"granted", "taken", "timeout", "limit"}, acquiresByOutcome),
	single(counter, "leash_lock_handovers_total", "Grants by the release of another client, among the granted.",
		func(v *values) int64 { return v.Locks.Handovers }),
	single(counter, "leash_lock_undone_total", "Acquires of unknown outcome that were taken back.",
		func(v *values) int64 { return v.Locks.Undone }),
	single(counter, "leash_lock_releases_total", "Locks that their owners, or a disconnect, have released.",
		func(v *values) int64 { return v.Locks.Releases }),
	labelled(counter, "leash_lock_losses_total", "Locks that were lost, by the reason.",
		"reason", view.LossReasons(), func(v *values) map[string]int64 { return v.Locks.Losses }),
	times("leash_lock_wait_seconds", "Time that commands waited for a lock, a permit or a latch.",
		func(v *values) histogram.Snapshot { return v.Locks.WaitTimes }),
	times("leash_lock_hold_seconds", "Time from the grant of a lock to its end.",
		func(v *values) histogram.Snapshot { return v.Locks.HoldTimes }),
	times("leash_lock_handover_seconds", "Time of the call that releases a lock and grants it to a waiter.",
		func(v *values) histogram.Snapshot { return v.Locks.HandoverTimes }),
	labelled(counter, "leash_lock_renewals_total", "Renewals of locks, and checks of locks with LEASE, by the answer of Redis.",
		"outcome", []string{"renewed", "unanswered"}, renewalsByOutcome),
	seconds("leash_lock_renewal_lag_seconds", "How late the oldest renewal is.",
		func(v *values) time.Duration { return v.Locks.RenewalLag }),
	single(gauge, "leash_lock_renewal_margin_seconds", "Least time that a lock had left at its renewal, "+
		"in the last 30 to 60 seconds; +Inf without renewals.", margin),
	single(gauge, "leash_lock_grace_masters", "Masters that grant no locks now, because of --failover-grace.",
		func(v *values) int64 { return v.Locks.GraceMasters }),
	seconds("leash_lock_grace_seconds", "Time that is left of the longest grace period.",
		func(v *values) time.Duration { return v.Locks.GraceLeft }),
	single(counter, "leash_lock_restored_total", "Locks that Leash put back after a failover.",
		func(v *values) int64 { return v.Locks.Restored }),

	// Process
	single(gauge, "leash_ready", "1 if /readyz answers 200.", func(v *values) int { return oneIf(v.ready) }),
	single(gauge, "leash_draining", "1 while Leash stops.", func(v *values) int { return oneIf(v.Draining) }),
	single(counter, "leash_panics_total", "Faults in the code of Leash.", func(v *values) int64 { return v.Panics }),
	{name: "leash_certificate_expiry_timestamp_seconds", kind: gauge, label: "certificate", values: expiries,
		help: "When a certificate of Leash ends, as Unix time; +Inf for one that is not used."},
	single(counter, "leash_certificate_errors_total", "Changed certificates that could not be used.",
		func(v *values) int64 { return v.CertificateErrors }),
	single(counter, "leash_audit_dropped_lines_total", "Lines of --audit-log that could not be written in time.",
		func(v *values) int64 { return v.auditDropped }),
	single(gauge, buildInfo, "1, with the versions of Leash and Go.", func(*values) int { return 1 }),
}

func linksByKind(v *values) map[string]int64 {
	u := v.Upstream
	return map[string]int64{"shared": int64(u.SharedLinks), "detour": int64(u.DetourLinks), "pinned": int64(u.PinnedLinks)}
}

func acquiresByOutcome(v *values) map[string]int64 {
	l := v.Locks
	return map[string]int64{"granted": l.Acquires, "taken": l.Taken, "timeout": l.Timeouts, "limit": l.Limited}
}

func renewalsByOutcome(v *values) map[string]int64 {
	return map[string]int64{"renewed": v.Locks.Renewals, "unanswered": v.Locks.Unrenewed}
}

// modeNames are the names of the modes of holds.
func modeNames() (all []string) {
	for _, m := range script.Modes {
		all = append(all, m.Name)
	}
	return append(all, script.Permit.Name)
}
