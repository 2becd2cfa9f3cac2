"""Does with redis-py what it is used for: interop_sync.py host port standalone|cluster [direct]."""

import os
import subprocess
import sys
import threading

import redis
from fencing import stale_write
from lock import locked, with_password
from redis.exceptions import NoScriptError


def expect(what, got, wanted):
    if got != wanted:
        raise AssertionError(f"{what}: got {got!r:.200}, want {wanted!r:.200}")
SECURE = "INTEROP_TLS" in os.environ
SHOWN_WITHOUT_TLS = ("lock_of_the_readme", "lock_password")


class App:
    """A program that uses Redis. Its methods are the steps, in order."""

    def __init__(self, host, port, mode):
        self.host, self.port, self.mode = host, port, mode
        cls = redis.RedisCluster if mode == "cluster" else redis.Redis
        self.r = cls(host=host, port=port, ssl=SECURE)

    def strings(self):
        binary = b"\x00\r\n$5\r\n\xff{}"
        expect("SET", self.r.set("string", binary, ex=60), True)
        expect("GET", self.r.get("string"), binary)
        expect("SET NX", self.r.set("string", "other", nx=True), None)
        expect("INCRBY", self.r.incrby("number", 42), 42)
        expect("GET of nothing", self.r.get("missing"), None)

    def hashes(self):
        expect("HSET", self.r.hset("hash", mapping={"name": "leash", "legs": 4}), 2)
        expect("HGETALL", self.r.hgetall("hash"), {b"name": b"leash", b"legs": b"4"})

    def lists(self):
        expect("RPUSH", self.r.rpush("list", "a", "b", "c"), 3)
        expect("LRANGE", self.r.lrange("list", 0, -1), [b"a", b"b", b"c"])

    def sets(self):
        expect("SADD", self.r.sadd("set", "a", "b", "a"), 2)
        expect("SMEMBERS", self.r.smembers("set"), {b"a", b"b"})

    def zsets(self):
        expect("ZADD", self.r.zadd("zset", {"a": 1, "b": 2.5}), 2)
        got = self.r.zrange("zset", 0, -1, withscores=True)
        expect("ZRANGE", [tuple(pair) for pair in got], [(b"a", 1.0), (b"b", 2.5)])

    def streams(self):
        ids = [self.r.xadd("stream", {"n": i}) for i in range(3)]
        expect("XGROUP CREATE", self.r.xgroup_create("stream", "group", "0"), True)
        read = self.r.xreadgroup("group", "one", {"stream": ">"}, block=100)
        messages = [(id, {b"n": str(i).encode()}) for i, id in enumerate(ids)]
        expect("XREADGROUP", [(name, list(map(tuple, entries))) for name, entries in read], [(b"stream", messages)])
        expect("XACK", self.r.xack("stream", "group", ids[0], ids[2]), 2)
        expect("XPENDING", self.r.xpending("stream", "group")["pending"], 1)
        expect("XREADGROUP BLOCK of nothing", self.r.xreadgroup("group", "one", {"stream": ">"}, block=100), [])

    def keys_over_slots(self):
        values = {f"multi:{i}": i for i in range(100)}
        if self.mode == "cluster":  # this client splits nothing but what is called so
            self.r.mset_nonatomic(values)
            got = self.r.mget_nonatomic(*values, "missing")
        else:
            expect("MSET", self.r.mset(values), True)
            got = self.r.mget(*values, "missing")
        expect("MGET", got, [str(i).encode() for i in range(100)] + [None])
        expect("DEL", self.r.delete(*values), 100)

    def pipeline(self):
        p = self.r.pipeline(transaction=False)
        for i in range(5000):
            p.set(f"pipe:{i}", i).get(f"pipe:{i}")
        wanted = [reply for i in range(5000) for reply in (True, str(i).encode())]
        expect("replies", p.execute(), wanted)

    def transaction(self):
        p = self.r.pipeline(transaction=True)
        p.set("{tx}text", "words").incrby("{tx}number", 7).lpush("{tx}text", "no list")
        replies = p.execute(raise_on_error=False)
        expect("INCRBY", replies[1], 7)
        expect("LPUSH to a string", str(replies[2])[:9], "WRONGTYPE")
        expect("GET", self.r.get("{tx}text"), b"words")

    def watch(self):
        """Four workers add to one counter by reading and writing it, 25 times each."""

        def add(p):
            n = int(p.get("counter") or 0)
            p.multi()
            p.set("counter", n + 1)

        def work():
            for _ in range(25):
                self.r.transaction(add, "counter")  # tries again while others are faster

        workers = [threading.Thread(target=work) for _ in range(4)]
        for w in workers:
            w.start()
        for w in workers:
            w.join()
        expect("counter", self.r.get("counter"), b"100")

    def pubsub(self):
        with self.r.pubsub() as p:
            p.subscribe("news")
            p.psubscribe("weather.*")
            for kind in "subscribe", "psubscribe":
                expect("confirmation", p.get_message(timeout=5)["type"], kind)
            for i in range(20):
                text = str(i).encode()
                self.r.publish("news", text)
                expect("message", p.get_message(timeout=5), {"type": "message", "pattern": None, "channel": b"news", "data": text})
                self.r.publish("weather.sea", text)
                expect("message", p.get_message(timeout=5), {"type": "pmessage", "pattern": b"weather.*", "channel": b"weather.sea", "data": text})

    def sharded_pubsub(self):
        with self.r.pubsub() as p:
            p.ssubscribe("shard")
            receive = p.get_sharded_message if self.mode == "cluster" else p.get_message
            expect("confirmation", receive(timeout=5)["type"], "ssubscribe")
            for i in range(20):
                text = str(i).encode()
                self.r.spublish("shard", text)
                expect("message", receive(timeout=5), {"type": "smessage", "pattern": None, "channel": b"shard", "data": text})

    def blocking(self):
        expect("BLPOP of nothing", self.r.blpop("queue", timeout=0.2), None)
        pusher = threading.Timer(0.1, self.r.rpush, ("queue", "job"))  # when the pop is waiting
        pusher.start()
        expect("BLPOP", tuple(self.r.blpop("queue", timeout=4)), (b"queue", b"job"))
        pusher.join()

    def scripts(self):
        script = self.r.register_script(f"return {{KEYS[1], ARGV[1] + 1}} -- redis-py {self.mode}")
        try:
            reply = self.r.evalsha(script.sha, 1, "script", 41)
            raise AssertionError(f"EVALSHA of a new script: got {reply!r}, want NOSCRIPT")
        except NoScriptError:
            pass
        expect("EVALSHA, then SCRIPT LOAD", script(keys=["script"], args=[41]), [b"script", 42])
        expect("EVALSHA", self.r.evalsha(script.sha, 1, "script", 41), [b"script", 42])

    def scan(self):
        p = self.r.pipeline(transaction=False)
        for i in range(10000):
            p.set(f"scan:{i}", "")
        p.execute()
        expect("keys seen", len(set(self.r.scan_iter("scan:*", count=100))), 10000)

    def large_value(self):
        large = b"0123456789abcde\n" * (1 << 20)
        expect("SET", self.r.set("large", large), True)
        expect("16 MB come back", self.r.get("large") == large, True)

    def reconnect(self):
        """All connections of the client are killed, and it goes on as if nothing had happened."""
        with redis.Redis(host=self.host, port=self.port, ssl=SECURE) as killer:
            killed = killer.client_kill_filter(_type="normal", skipme=True)
        expect("some killed", killed > 0, True)
        for i in range(20):
            expect("SET after CLIENT KILL", self.r.set(f"back:{i}", i), True)

    def locks(self):
        """The token is passed along, since a pool may release on another connection than it acquired on."""
        token = self.r.execute_command("LOCK.ACQUIRE", "order:42")
        expect("a token", isinstance(token, int) and token > 0, True)
        expect("LOCK.ACQUIRE of a taken lock", self.r.execute_command("LOCK.ACQUIRE", "order:42"), None)
        expect("LOCK.RELEASE", self.r.execute_command("LOCK.RELEASE", "order:42", "TOKEN", token), 1)

    def lock_of_the_readme(self):
        if self.mode == "cluster":  # its clients have a pool for each node, and so are as the others
            return
        taken = lambda: self.r.execute_command("LOCK.ACQUIRE", "order:42") is None
        locked(self.host, self.port, lambda c: expect("taken while at work", taken(), True))
        expect("taken afterwards", taken(), False)
        expect("LOCK.RELEASE", self.r.execute_command("LOCK.RELEASE", "order:42"), 1)

        def fail(c):
            raise ValueError

        def lose(c):
            self.r.client_kill_filter(_id=c.client_id())
            c.get("stock:42")

        for work, wanted in (fail, ValueError), (lose, redis.ConnectionError):
            try:
                locked(self.host, self.port, work)
                raise AssertionError(f"{wanted.__name__} does not get out of the lock")
            except wanted:
                pass
            expect("taken after an error", taken(), False)
            expect("LOCK.RELEASE", self.r.execute_command("LOCK.RELEASE", "order:42"), 1)

    def lock_keeps_the_shop_from_overselling(self):
        if self.mode == "cluster":  # the program has one client for both
            return
        self.r.set("stock:42", 3)
        env = os.environ | {"REDIS_URL": f"{'rediss' if SECURE else 'redis'}://{self.host}:{self.port}"}
        customers = [subprocess.Popen([sys.executable, "sell.py"], env=env, stdout=subprocess.PIPE) for _ in range(5)]
        said = sorted(customer.communicate()[0].strip() for customer in customers)
        expect("what five customers hear", said, [b"sold one"] * 3 + [b"sold out"] * 2)
        expect("the stock that is left", self.r.get("stock:42"), b"0")

    def lock_password(self):
        r = with_password(self.host, self.port)
        expect("ACL WHOAMI", r.acl_whoami(), "shop")
        r.close()

    def locks_fence(self):
        refused, first, second, rows = stale_write(self.r)
        expect("the second token is larger", second > first, True)
        expect("the refusal", str(refused), f"token {first} is stale")
        expect("what the table has", rows, [(6, second)])


def main(host, port, mode, direct=None):
    app = App(host, int(port), mode)
    failed = False
    for name, step in vars(App).items():
        if name.startswith("_") or direct and name.startswith("lock") or SECURE and name in SHOWN_WITHOUT_TLS:
            continue
        try:
            step(app)
            print("ok", name)
        except Exception as e:
            failed = True
            print(f"FAILED {name}: {type(e).__name__}: {e}")
    app.r.close()
    sys.exit(failed)


main(*sys.argv[1:])
