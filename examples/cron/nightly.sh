#!/bin/sh
# A job that three hosts start at the same moment, and that must run once. Here the hosts are three
# processes. It needs a Leash at $LEASH_SERVER, and the leash binary on the PATH.
#
#   PATH=$PWD/bin:$PATH examples/cron/nightly.sh
#
# On a real host, the crontab has this line:
#   0 3 * * *  leash lock nightly-report -- /usr/local/bin/report
log=$(mktemp) || exit 1
for host in a b c; do
	leash lock "nightly-report" -- sh -c "echo ran on host $host >>'$log'; sleep 5" 2>>"$log" &
done
wait
cat "$log"
rm "$log"
