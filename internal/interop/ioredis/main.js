// Does with ioredis what it is used for: node main.js host port standalone|cluster [direct].

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { Cluster, Redis } from "ioredis";
import { locked } from "./lock.js";

const [host, port, mode, direct] = process.argv.slice(2);
const secure = Boolean(process.env.INTEROP_TLS);
const tls = secure ? {} : undefined;
const clients = [];

/** Another client, with connections of its own. */
function connect() {
  const client = mode === "cluster" ? new Cluster([{ host, port }], { redisOptions: { tls } }) : new Redis({ host, port, tls });
  clients.push(client);
  return client;
}

const redis = connect();
// A cluster refuses, and Leash does not, what is spread over slots.
const tag = direct && mode === "cluster" ? "{one}" : "";

const steps = {
  async strings() {
    const binary = Buffer.from("\x00\r\n$5\r\n\xff{}", "latin1");
    assert.equal(await redis.set("string", binary, "EX", 60), "OK");
    assert.deepEqual(await redis.getBuffer("string"), binary);
    assert.equal(await redis.set("string", "other", "NX"), null);
    assert.equal(await redis.incrby("number", 42), 42);
    assert.equal(await redis.get("missing"), null);
  },

  async hashes() {
    assert.equal(await redis.hset("hash", { name: "leash", legs: 4 }), 2);
    assert.deepEqual({ ...(await redis.hgetall("hash")) }, { name: "leash", legs: "4" });
  },

  async lists() {
    assert.equal(await redis.rpush("list", "a", "b", "c"), 3);
    assert.deepEqual(await redis.lrange("list", 0, -1), ["a", "b", "c"]);
  },

  async sets() {
    assert.equal(await redis.sadd("set", "a", "b", "a"), 2);
    assert.deepEqual((await redis.smembers("set")).sort(), ["a", "b"]);
  },

  async zsets() {
    assert.equal(await redis.zadd("zset", 1, "a", 2.5, "b"), 2);
    assert.deepEqual(await redis.zrange("zset", 0, -1, "WITHSCORES"), ["a", "1", "b", "2.5"]);
  },

  async streams() {
    const ids = [];
    for (const n of ["0", "1", "2"]) ids.push(await redis.xadd("stream", "*", "n", n));
    assert.equal(await redis.xgroup("CREATE", "stream", "group", "0"), "OK");
    const read = () => redis.xreadgroup("GROUP", "group", "one", "BLOCK", 100, "STREAMS", "stream", ">");
    assert.deepEqual(await read(), [["stream", ids.map((id, n) => [id, ["n", String(n)]])]]);
    assert.equal(await redis.xack("stream", "group", ids[0], ids[2]), 2);
    assert.equal((await redis.xpending("stream", "group"))[0], 1);
    assert.equal(await read(), null);
  },

  async keysOverSlots() {
    const keys = Array.from({ length: 100 }, (_, i) => `${tag}multi:${i}`);
    assert.equal(await redis.mset(Object.fromEntries(keys.map((key, i) => [key, i]))), "OK");
    assert.deepEqual(await redis.mget(...keys, `${tag}missing`), [...keys.map((_, i) => String(i)), null]);
    assert.equal(await redis.del(keys), 100);
  },

  async pipeline() {
    const p = redis.pipeline();
    for (let i = 0; i < 5000; i++) p.set(`${tag}pipe:${i}`, i).get(`${tag}pipe:${i}`);
    const wanted = Array.from({ length: 5000 }, (_, i) => [[null, "OK"], [null, String(i)]]).flat();
    assert.deepEqual(await p.exec(), wanted);
  },

  async transaction() {
    const replies = await redis.multi().set("{tx}text", "words").incrby("{tx}number", 7).lpush("{tx}text", "no list").exec();
    assert.deepEqual(replies.slice(0, 2), [[null, "OK"], [null, 7]]);
    assert.match(replies[2][0].message, /^WRONGTYPE/);
  },

  /** Four clients add to one counter by reading and writing it, 25 times each. */
  async watch() {
    const work = async (client) => {
      for (let done = 0; done < 25; ) {
        await client.watch("counter");
        const n = Number(await client.get("counter"));
        const replies = await client.multi().set("counter", n + 1).exec();
        if (replies !== null) done++; // else another one was faster
      }
    };
    await Promise.all([connect(), connect(), connect(), connect()].map(work));
    assert.equal(await redis.get("counter"), "100");
  },

  async pubsub() {
    const subscriber = connect();
    const messages = [];
    subscriber.on("message", (channel, text) => messages.push([channel, text]));
    subscriber.on("pmessage", (pattern, channel, text) => messages.push([pattern, channel, text]));
    assert.equal(await subscriber.subscribe("news"), 1);
    assert.equal(await subscriber.psubscribe("weather.*"), 2);
    for (let i = 0; i < 20; i++) {
      await redis.publish("news", i);
      await until(() => messages.length === 2 * i + 1);
      await redis.publish("weather.sea", i);
      await until(() => messages.length === 2 * i + 2);
    }
    const wanted = Array.from({ length: 20 }, (_, i) => [["news", String(i)], ["weather.*", "weather.sea", String(i)]]);
    assert.deepEqual(messages, wanted.flat());
  },

  async shardedPubsub() {
    if (mode === "cluster") return; // off by default there
    const subscriber = connect();
    const messages = [];
    subscriber.on("smessage", (channel, text) => messages.push([channel, text]));
    assert.equal(await subscriber.ssubscribe("shard"), 1);
    for (let i = 0; i < 20; i++) await redis.spublish("shard", i);
    await until(() => messages.length === 20);
    assert.deepEqual(messages, Array.from({ length: 20 }, (_, i) => ["shard", String(i)]));
  },

  async blocking() {
    const popper = connect();
    assert.equal(await popper.blpop("queue", 0.2), null);
    const popped = popper.blpop("queue", 10);
    await sleep(100); // so that the pop is waiting
    assert.equal(await redis.rpush("queue", "job"), 1);
    assert.deepEqual(await popped, ["queue", "job"]);
  },

  async scripts() {
    redis.defineCommand("addOne", { numberOfKeys: 1, lua: `return {KEYS[1], ARGV[1] + 1} -- ioredis ${mode}` });
    assert.deepEqual(await redis.addOne("script", 41), ["script", 42]); // EVALSHA, then EVAL
    assert.deepEqual(await redis.addOne("script", 42), ["script", 43]); // EVALSHA
    await assert.rejects(redis.evalsha("0".repeat(40), 1, "script"), /^ReplyError: NOSCRIPT/);
  },

  async scan() {
    await Promise.all(Array.from({ length: 10000 }, (_, i) => redis.set(`scan:${i}`, "")));
    const seen = new Set();
    for (const node of mode === "cluster" ? redis.nodes("master") : [redis]) {
      for await (const keys of node.scanStream({ match: "scan:*", count: 100 })) keys.forEach((key) => seen.add(key));
    }
    assert.equal(seen.size, 10000);
  },

  async largeValue() {
    const large = Buffer.alloc(16 << 20, "0123456789abcde\n");
    assert.equal(await redis.set("large", large), "OK");
    assert.ok(large.equals(await redis.getBuffer("large")), "16 MB come back");
  },

  /** All connections are killed, and the clients go on as if nothing had happened, subscribed to what they were. */
  async reconnect() {
    const subscriber = connect();
    const messages = [];
    subscriber.on("message", (channel, text) => messages.push([channel, text]));
    await subscriber.subscribe("news");
    const killer = new Redis({ host, port, tls });
    clients.push(killer);
    // Subscribers first: when others die, a cluster client may leave its subscriber's connection by itself.
    for (const type of ["pubsub", "normal"]) {
      const killed = await killer.client("KILL", "TYPE", type, "SKIPME", "yes");
      assert.ok(killed > 0 || direct, `some were killed: ${type}`); // of a cluster it kills one node's
    }
    for (let i = 0; i < 20; i++) assert.equal(await redis.set(`back:${i}`, i), "OK");
    for (const end = Date.now() + 10000; messages.length === 0; await sleep(10)) {
      assert.ok(Date.now() < end, "subscribed again");
      await redis.publish("news", "again");
    }
    assert.deepEqual(messages[0], ["news", "again"]);
  },

  async locks() {
    if (direct) return;
    assert.ok((await redis.call("LOCK.ACQUIRE", "order:42")) > 0, "a token");
    assert.equal(await redis.call("LOCK.ACQUIRE", "order:42"), null);
    assert.equal(await redis.call("LOCK.RELEASE", "order:42"), 1); // what this connection took last
  },

  async lockOfTheReadme() {
    if (direct || secure || mode === "cluster") return;
    const call = (...args) => redis.call(...args);
    const freed = async () => {
      assert.ok((await call("LOCK.ACQUIRE", "order:42", "BLOCK", "5000")) > 0, "it is free");
      assert.equal(await call("LOCK.RELEASE", "order:42"), 1);
    };
    await locked(host, port, async () => assert.equal(await call("LOCK.ACQUIRE", "order:42"), null));
    await freed();
    await assert.rejects(locked(host, port, async () => assert.fail("at work")), /at work/);
    await freed();
    const lost = locked(host, port, async (c) => {
      await redis.client("KILL", "ID", await c.client("ID"));
      await c.get("stock:42");
    });
    await assert.rejects(lost, /closed/);
    await redis.del("order:42"); // Leash leaves it to run out
  },

  /** The whole program of docs/clients.md, with a password. */
  async programOfTheDocs() {
    if (direct || mode === "cluster") return;
    await redis.set("stock:42", "7");
    const env = { ...process.env, REDIS_URL: `${secure ? "rediss" : "redis"}://shop:open-sesame@${host}:${port}` };
    const { stdout } = await promisify(execFile)(process.execPath, ["example.js"], { env });
    assert.match(stdout, /^token \d+ stock 7\n$/);
    await assert.rejects(promisify(execFile)(process.execPath, ["example.js"], { env: { ...env, REDIS_URL: env.REDIS_URL.replace("open", "shut") } }), /WRONGPASS/);
  },
};

/** Waits until the condition holds. */
async function until(condition) {
  for (const end = Date.now() + 5000; !condition(); await sleep(1)) assert.ok(Date.now() < end, `in time: ${condition}`);
}

for (const [name, step] of Object.entries(steps)) {
  try {
    await step();
    console.log("ok", name);
  } catch (error) {
    process.exitCode = 1;
    console.log(`FAILED ${name}: ${error.stack}`);
  }
}
clients.forEach((client) => client.disconnect());
