#!/bin/sh
# Three hosts elect a leader. The leader dies, and another one takes over. Here the hosts are
# processes. It needs a Leash at $LEASH_SERVER, and the leash binary on the PATH.
#
#   PATH=$PWD/bin:$PATH examples/leader/leader.sh
log=$(mktemp) || exit 1
for host in a b c; do
	leash elect scheduler -- sh -c "echo host $host leads, \$PPID >>'$log'; exec sleep 100" 2>>"$log" &
	hosts="$hosts $!"
done
leaders() { grep -c leads "$log"; }
until [ "$(leaders)" -eq 1 ]; do sleep 0.1; done
leader=$(sed 's/.*leads, //' "$log")
echo "the first leader stops"
kill "$leader"
until [ "$(leaders)" -eq 2 ]; do sleep 0.1; done
sed 's/, .*//' "$log"
kill $hosts 2>/dev/null
wait
rm "$log"
