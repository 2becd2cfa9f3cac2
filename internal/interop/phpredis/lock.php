<?php
// Holds a lock as docs/clients.md shows.

function locked(string $host, int $port, callable $work): void
{
    // docs
    $c = new Redis();
    $c->connect($host, $port);
    $c->setOption(Redis::OPT_MAX_RETRIES, 0); // no reconnect
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
    // end of docs
}

function authenticate(Redis $c): void
{
    // docs
    $c->auth(["shop", "open-sesame"]);
    // end of docs
}
