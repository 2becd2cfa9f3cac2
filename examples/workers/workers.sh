#!/bin/sh
# Six workers share a licence for two. Here the workers are processes. It needs a Leash at
# $LEASH_SERVER, and leash and redis-cli on the PATH.
#
#   PATH=$PWD/bin:$PATH examples/workers/workers.sh
server=${LEASH_SERVER:-127.0.0.1:6380}
redis-cli -h "${server%:*}" -p "${server##*:}" SEM.INIT render-licences 2 >/dev/null || exit 1
running=$(mktemp -d) || exit 1
for worker in 1 2 3 4 5 6; do
	leash lock render-licences --permits 1 --wait 1m -- sh -c "
		touch '$running/$worker'
		echo \$(ls '$running' | wc -l) at work
		sleep 0.3
		rm '$running/$worker'" &
done
wait
rmdir "$running"
