lockcmd, audit: say which user had a lock, and how long it waited

Each line of --audit-log has the user, the time waited for the lock and the time it was held. The
carrier of a connection is told name and user at once when one of them changes.
