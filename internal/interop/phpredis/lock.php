<?php
// Holds a lock as the README says.

function locked(string $host, int $port, callable $work): void
{
    // README
    $c = new Redis();
    $c->connect($host, $port); // not pconnect, whose connection outlives the script and with it the lock
    $c->setOption(Redis::OPT_MAX_RETRIES, 0); // a connection that is lost stays lost
    $c->setOption(Redis::OPT_READ_TIMEOUT, 15); // longer than BLOCK

    $token = $c->rawCommand("LOCK.ACQUIRE", "order:42", "BLOCK", "10000");
    if (!$token) {
        throw new RuntimeException($c->getLastError() ?? "order:42 is taken");
    }
    try {
        $work($c);
    } finally {
        $c->rawCommand("LOCK.RELEASE", "order:42", "TOKEN", $token);
    }
    // end of README
}
