<?php
// Does with phpredis what it is used for: php main.php host port standalone|cluster [direct].

require __DIR__ . "/lock.php";

[, $name, $port, $mode] = $argv;
$direct = isset($argv[4]);
$cluster = $mode === "cluster";
$tls = (bool)getenv("INTEROP_TLS");
$host = $tls ? "tls://$name" : $name;
$options = $tls ? [0, 0, false, null, ["verify_peer" => true]] : []; // the cluster's client has another way
$r = $cluster ? new RedisCluster(null, ["$name:$port"], ...$options) : connect();

function connect(): Redis
{
    global $host, $port;
    $r = new Redis();
    $r->connect($host, (int)$port);
    return $r;
}

function expect(string $what, mixed $got, mixed $wanted): void
{
    if ($got !== $wanted) {
        throw new Exception("$what: got " . substr(var_export($got, true), 0, 200) . ", want " . substr(var_export($wanted, true), 0, 200));
    }
}

/** A command that the library does not know. */
function call(string $command, string $key, string ...$arguments): mixed
{
    global $r, $cluster;
    return $cluster ? $r->rawCommand($key, $command, $key, ...$arguments) : $r->rawCommand($command, $key, ...$arguments);
}

$steps = [];

$steps["strings"] = function () use ($r) {
    $binary = "\x00\r\n\$5\r\n\xff{}";
    expect("SET", $r->set("string", $binary, ["ex" => 60]), true);
    expect("GET", $r->get("string"), $binary);
    expect("SET NX", $r->set("string", "other", ["nx"]), false);
    expect("INCRBY", $r->incrBy("number", 42), 42);
    expect("GET of nothing", $r->get("missing"), false);
};

$steps["hashes and lists"] = function () use ($r) {
    expect("HMSET", $r->hMSet("hash", ["name" => "leash", "legs" => "4"]), true);
    expect("HGETALL", $r->hGetAll("hash"), ["name" => "leash", "legs" => "4"]);
    expect("RPUSH", $r->rPush("list", "a", "b", "c"), 3);
    expect("LRANGE", $r->lRange("list", 0, -1), ["a", "b", "c"]);
};

$steps["sets"] = function () use ($r) {
    expect("SADD", $r->sAdd("set", "a", "b", "a"), 2);
    expect("SCARD", $r->sCard("set"), 2);
    expect("ZADD", $r->zAdd("zset", 1, "a", 2.5, "b"), 2);
    expect("ZRANGE", $r->zRange("zset", 0, -1, true), ["a" => 1.0, "b" => 2.5]);
};

$steps["streams"] = function () use ($r) {
    $first = $r->xAdd("stream", "*", ["n" => "0"]);
    $second = $r->xAdd("stream", "*", ["n" => "1"]);
    expect("XGROUP CREATE", $r->xGroup("CREATE", "stream", "group", "0"), true);
    expect("XREADGROUP", $r->xReadGroup("group", "one", ["stream" => ">"], 10), ["stream" => [$first => ["n" => "0"], $second => ["n" => "1"]]]);
    expect("XACK", $r->xAck("stream", "group", [$first, $second]), 2);
};

$steps["keys over slots"] = function () use ($r) {
    $values = [];
    for ($i = 0; $i < 100; $i++) {
        $values["multi:$i"] = "$i";
    }
    expect("MSET", $r->mSet($values), true);
    expect("MGET", $r->mGet([...array_keys($values), "missing"]), [...array_values($values), false]);
    expect("DEL", $r->del(array_keys($values)), 100);
};

$steps["pipeline"] = function () use ($r, $cluster) {
    if ($cluster) {
        return; // the cluster's client has none
    }
    $p = $r->pipeline();
    $wanted = [];
    for ($i = 0; $i < 2000; $i++) {
        $p->set("pipe:$i", "$i");
        $p->get("pipe:$i");
        array_push($wanted, true, "$i");
    }
    expect("replies", $p->exec() === $wanted, true);
};

$steps["transaction"] = function () use ($r) {
    $r->multi();
    $r->set("{tx}text", "words");
    $r->incrBy("{tx}number", 7);
    expect("EXEC", $r->exec(), [true, 7]);
};

$steps["watch"] = function () use ($r, $cluster) {
    if ($cluster) {
        return; // the cluster's client answers something of its own
    }
    $r->watch("watched");
    connect()->set("watched", "by another");
    $r->multi();
    $r->set("watched", "mine");
    expect("EXEC after a write of another", $r->exec(), false);
    expect("GET", $r->get("watched"), "by another");
};

$steps["blocking"] = function () use ($r) {
    expect("BLPOP of nothing", $r->blPop(["queue"], 1), []);
    expect("RPUSH", $r->rPush("queue", "job"), 1);
    expect("BLPOP", $r->blPop(["queue"], 1), ["queue", "job"]);
};

$steps["scripts"] = function () use ($r, $mode) {
    $script = "return {KEYS[1], ARGV[1] + 1} -- phpredis $mode";
    expect("EVALSHA of a new script", $r->evalSha(sha1($script), ["script", "41"], 1), false);
    expect("EVAL", $r->eval($script, ["script", "41"], 1), ["script", 42]);
    expect("EVALSHA", $r->evalSha(sha1($script), ["script", "41"], 1), ["script", 42]);
};

$steps["scan"] = function () use ($r, $cluster) {
    for ($i = 0; $i < 1000; $i++) {
        $r->set("scan:$i", "");
    }
    $seen = [];
    foreach ($cluster ? $r->_masters() : [null] as $node) {
        $from = null;
        do {
            $keys = $cluster ? $r->scan($from, $node, "scan:*", 100) : $r->scan($from, "scan:*", 100);
            $seen += array_flip($keys ?: []);
        } while ($from != 0);
    }
    expect("keys seen", count($seen), 1000);
};

$steps["large value"] = function () use ($r) {
    $large = str_repeat("0123456789abcde\n", 1 << 20);
    expect("SET", $r->set("large", $large), true);
    expect("16 MB come back", $r->get("large") === $large, true);
};

$steps["locks"] = function () {
    $token = call("LOCK.ACQUIRE", "order:42");
    expect("a token", is_int($token) && $token > 0, true);
    expect("LOCK.ACQUIRE of a taken lock", (bool)call("LOCK.ACQUIRE", "order:42"), false);
    expect("LOCK.RELEASE", call("LOCK.RELEASE", "order:42", "TOKEN", (string)$token), 1);
};

/** The lock is held while there is work, and free after it also when that failed; a lost connection is told. */
$steps["lock of the readme"] = function () use ($r, $host, $port, $cluster) {
    if ($cluster) {
        return; // its client has a connection to each node
    }
    $free = function () {
        expect("it is free", call("LOCK.ACQUIRE", "order:42", "BLOCK", "5000") > 0, true);
        expect("LOCK.RELEASE", call("LOCK.RELEASE", "order:42"), 1);
    };
    locked($host, (int)$port, fn() => expect("LOCK.ACQUIRE at work", (bool)call("LOCK.ACQUIRE", "order:42"), false));
    $free();
    try {
        locked($host, (int)$port, fn() => throw new LogicException());
        throw new Exception("the error does not get out of the lock");
    } catch (LogicException) {
        $free();
    }
    try {
        locked($host, (int)$port, function (Redis $c) use ($r) {
            $r->rawCommand("CLIENT", "KILL", "ID", (string)$c->client("id"));
            $c->get("stock:42");
        });
        throw new Exception("the loss does not get out of the lock");
    } catch (RedisException) {
        $r->del("order:42"); // Leash leaves it to run out
    }
};

$steps["lock password"] = function () {
    $c = connect();
    authenticate($c);
    expect("ACL WHOAMI", $c->rawCommand("ACL", "WHOAMI"), "shop");
};

$failed = false;
foreach ($steps as $name => $step) {
    if ($direct && str_starts_with($name, "lock")) {
        continue;
    }
    try {
        $step();
        echo "ok $name\n";
    } catch (Throwable $e) {
        $failed = true;
        echo "FAILED $name: {$e->getMessage()} at {$e->getLine()}\n";
    }
}
exit($failed ? 1 : 0);
