"""Does with redis-py's asyncio client what it is used for: interop_asyncio.py host port standalone|cluster [direct]."""

import asyncio
import os
import sys

import redis.asyncio as redis
from lock_asyncio import locked
from redis.exceptions import NoScriptError


def expect(what, got, wanted):
    if got != wanted:
        raise AssertionError(f"{what}: got {got!r:.200}, want {wanted!r:.200}")
SECURE = "INTEROP_TLS" in os.environ
SHOWN_WITHOUT_TLS = ("lock_of_the_docs",)


class App:
    """A program that uses Redis. Its methods are the steps, in order."""

    def __init__(self, host, port, mode):
        self.host, self.port, self.mode = host, port, mode
        cls = redis.RedisCluster if mode == "cluster" else redis.Redis
        self.r = cls(host=host, port=port, ssl=SECURE)

    async def strings(self):
        binary = b"\x00\r\n$5\r\n\xff{}"
        expect("SET", await self.r.set("string", binary, ex=60), True)
        expect("GET", await self.r.get("string"), binary)
        expect("SET NX", await self.r.set("string", "other", nx=True), None)
        expect("INCRBY", await self.r.incrby("number", 42), 42)
        expect("GET of nothing", await self.r.get("missing"), None)

    async def hashes(self):
        expect("HSET", await self.r.hset("hash", mapping={"name": "leash", "legs": 4}), 2)
        expect("HGETALL", await self.r.hgetall("hash"), {b"name": b"leash", b"legs": b"4"})

    async def lists(self):
        expect("RPUSH", await self.r.rpush("list", "a", "b", "c"), 3)
        expect("LRANGE", await self.r.lrange("list", 0, -1), [b"a", b"b", b"c"])

    async def sets(self):
        expect("SADD", await self.r.sadd("set", "a", "b", "a"), 2)
        expect("SMEMBERS", await self.r.smembers("set"), {b"a", b"b"})

    async def zsets(self):
        expect("ZADD", await self.r.zadd("zset", {"a": 1, "b": 2.5}), 2)
        got = await self.r.zrange("zset", 0, -1, withscores=True)
        expect("ZRANGE", [tuple(pair) for pair in got], [(b"a", 1.0), (b"b", 2.5)])

    async def streams(self):
        ids = [await self.r.xadd("stream", {"n": i}) for i in range(3)]
        expect("XGROUP CREATE", await self.r.xgroup_create("stream", "group", "0"), True)
        read = await self.r.xreadgroup("group", "one", {"stream": ">"}, block=100)
        messages = [(id, {b"n": str(i).encode()}) for i, id in enumerate(ids)]
        expect("XREADGROUP", [(name, list(map(tuple, entries))) for name, entries in read], [(b"stream", messages)])
        expect("XACK", await self.r.xack("stream", "group", ids[0], ids[2]), 2)
        expect("XPENDING", (await self.r.xpending("stream", "group"))["pending"], 1)
        expect("XREADGROUP BLOCK of nothing", await self.r.xreadgroup("group", "one", {"stream": ">"}, block=100), [])

    async def keys_over_slots(self):
        values = {f"multi:{i}": i for i in range(100)}
        if self.mode == "cluster":  # this client splits nothing but what is called so
            await self.r.mset_nonatomic(values)
            got = await self.r.mget_nonatomic(*values, "missing")
        else:
            expect("MSET", await self.r.mset(values), True)
            got = await self.r.mget(*values, "missing")
        expect("MGET", got, [str(i).encode() for i in range(100)] + [None])
        expect("DEL", await self.r.delete(*values), 100)

    async def pipeline(self):
        p = self.r.pipeline(transaction=False)
        for i in range(5000):
            p.set(f"pipe:{i}", i).get(f"pipe:{i}")
        wanted = [reply for i in range(5000) for reply in (True, str(i).encode())]
        expect("replies", await p.execute(), wanted)

    async def transaction(self):
        p = self.r.pipeline(transaction=True)
        p.set("{tx}text", "words").incrby("{tx}number", 7).lpush("{tx}text", "no list")
        replies = await p.execute(raise_on_error=False)
        expect("INCRBY", replies[1], 7)
        expect("LPUSH to a string", str(replies[2])[:9], "WRONGTYPE")
        expect("GET", await self.r.get("{tx}text"), b"words")

    async def watch(self):
        """Four tasks add to one counter by reading and writing it, 25 times each."""

        async def add(p):
            n = int(await p.get("counter") or 0)
            p.multi()
            p.set("counter", n + 1)

        async def work():
            for _ in range(25):
                await self.r.transaction(add, "counter")  # tries again while others are faster

        await asyncio.gather(work(), work(), work(), work())
        expect("counter", await self.r.get("counter"), b"100")

    async def pubsub(self):
        async with self.r.pubsub() as p:
            await p.subscribe("news")
            await p.psubscribe("weather.*")
            for kind in "subscribe", "psubscribe":
                expect("confirmation", (await p.get_message(timeout=5))["type"], kind)
            for i in range(20):
                text = str(i).encode()
                await self.r.publish("news", text)
                expect("message", await p.get_message(timeout=5), {"type": "message", "pattern": None, "channel": b"news", "data": text})
                await self.r.publish("weather.sea", text)
                expect("message", await p.get_message(timeout=5), {"type": "pmessage", "pattern": b"weather.*", "channel": b"weather.sea", "data": text})

    async def sharded_pubsub(self):
        async with self.r.pubsub() as p:
            await p.ssubscribe("shard")
            receive = p.get_sharded_message if self.mode == "cluster" else p.get_message
            expect("confirmation", (await receive(timeout=5))["type"], "ssubscribe")
            for i in range(20):
                text = str(i).encode()
                await self.r.spublish("shard", text)
                expect("message", await receive(timeout=5), {"type": "smessage", "pattern": None, "channel": b"shard", "data": text})

    async def blocking(self):
        expect("BLPOP of nothing", await self.r.blpop("queue", timeout=0.2), None)
        pop = asyncio.create_task(self.r.blpop("queue", timeout=4))
        await asyncio.sleep(0.1)  # so that the pop is waiting
        expect("RPUSH", await self.r.rpush("queue", "job"), 1)
        expect("BLPOP", tuple(await pop), (b"queue", b"job"))

    async def scripts(self):
        script = self.r.register_script(f"return {{KEYS[1], ARGV[1] + 1}} -- redis-py-asyncio {self.mode}")
        try:
            reply = await self.r.evalsha(script.sha, 1, "script", 41)
            raise AssertionError(f"EVALSHA of a new script: got {reply!r}, want NOSCRIPT")
        except NoScriptError:
            pass
        expect("EVALSHA, then SCRIPT LOAD", await script(keys=["script"], args=[41]), [b"script", 42])
        expect("EVALSHA", await self.r.evalsha(script.sha, 1, "script", 41), [b"script", 42])

    async def scan(self):
        p = self.r.pipeline(transaction=False)
        for i in range(10000):
            p.set(f"scan:{i}", "")
        await p.execute()
        seen = {key async for key in self.r.scan_iter("scan:*", count=100)}
        expect("keys seen", len(seen), 10000)

    async def large_value(self):
        large = b"0123456789abcde\n" * (1 << 20)
        expect("SET", await self.r.set("large", large), True)
        expect("16 MB come back", await self.r.get("large") == large, True)

    async def reconnect(self):
        """All connections of the client are killed, and it goes on as if nothing had happened."""
        async with redis.Redis(host=self.host, port=self.port, ssl=SECURE) as killer:
            killed = await killer.client_kill_filter(_type="normal", skipme=True)
        expect("some killed", killed > 0, True)
        for i in range(20):
            expect("SET after CLIENT KILL", await self.r.set(f"back:{i}", i), True)

    async def locks(self):
        """The token is passed along, since a pool may release on another connection than it acquired on."""
        token = await self.r.execute_command("LOCK.ACQUIRE", "order:42")
        expect("a token", isinstance(token, int) and token > 0, True)
        expect("LOCK.ACQUIRE of a taken lock", await self.r.execute_command("LOCK.ACQUIRE", "order:42"), None)
        expect("LOCK.RELEASE", await self.r.execute_command("LOCK.RELEASE", "order:42", "TOKEN", token), 1)

    async def lock_of_the_docs(self):
        if self.mode == "cluster":  # its clients have a pool for each node, and so are as the others
            return

        async def taken():
            return await self.r.execute_command("LOCK.ACQUIRE", "order:42") is None

        async def look(c):
            expect("taken while at work", await taken(), True)

        async def fail(c):
            raise ValueError

        async def lose(c):
            await self.r.client_kill_filter(_id=await c.client_id())
            await c.get("stock:42")

        for work, wanted in (look, None), (fail, ValueError), (lose, redis.ConnectionError):
            got = None
            try:
                await locked(self.host, self.port, work)
            except (ValueError, redis.ConnectionError) as error:
                got = type(error)
            expect("what gets out of the lock", got, wanted)
            expect("taken afterwards", await taken(), False)
            expect("LOCK.RELEASE", await self.r.execute_command("LOCK.RELEASE", "order:42"), 1)


async def main(host, port, mode, direct=None):
    app = App(host, int(port), mode)
    failed = False
    for name, step in vars(App).items():
        if name.startswith("_") or direct and name.startswith("lock") or SECURE and name in SHOWN_WITHOUT_TLS:
            continue
        try:
            await step(app)
            print("ok", name)
        except Exception as e:
            failed = True
            print(f"FAILED {name}: {type(e).__name__}: {e}")
    await app.r.aclose()
    return failed


sys.exit(asyncio.run(main(*sys.argv[1:])))
