// Does with node-redis what it is used for: node main.js host port standalone|cluster [direct].

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { createClient, createCluster, defineScript, RESP_TYPES } from "redis";
import { locked } from "./lock.js";

const [host, port, mode, direct] = process.argv.slice(2);
const tls = Boolean(process.env.INTEROP_TLS);
const scheme = tls ? "rediss" : "redis";
const url = `${scheme}://${host}:${port}`;
const scripts = {
  addOne: defineScript({
    SCRIPT: `return {KEYS[1], ARGV[1] + 1} -- node-redis ${mode}`,
    NUMBER_OF_KEYS: 1,
    parseCommand(parser, key, n) {
      parser.pushKey(key);
      parser.push(String(n));
    },
    transformReply: (reply) => reply,
  }),
};
const clients = [];

/** Another client, with connections of its own. */
async function connect() {
  const nodes = { rootNodes: [{ url }], defaults: { socket: { tls } } }; // defaults are for those found later
  const client = mode === "cluster" ? createCluster({ ...nodes, scripts }) : createClient({ url, scripts });
  clients.push(client);
  client.on("error", () => {}); // it connects again; what was under way is rejected
  return client.connect();
}

const redis = await connect();
// A cluster refuses, and Leash does not, what is spread over slots.
const tag = direct && mode === "cluster" ? "{one}" : "";

const steps = {
  async strings() {
    const binary = Buffer.from("\x00\r\n$5\r\n\xff{}", "latin1");
    assert.equal(await redis.set("string", binary, { EX: 60 }), "OK");
    assert.deepEqual(await bytesOf("string"), binary);
    assert.equal(await redis.set("string", "other", { condition: "NX" }), null);
    assert.equal(await redis.incrBy("number", 42), 42);
    assert.equal(await redis.get("missing"), null);
  },

  async hashes() {
    assert.equal(await redis.hSet("hash", { name: "leash", legs: 4 }), 2);
    assert.deepEqual({ ...(await redis.hGetAll("hash")) }, { name: "leash", legs: "4" });
  },

  async lists() {
    assert.equal(await redis.rPush("list", ["a", "b", "c"]), 3);
    assert.deepEqual(await redis.lRange("list", 0, -1), ["a", "b", "c"]);
  },

  async sets() {
    assert.equal(await redis.sAdd("set", ["a", "b", "a"]), 2);
    assert.deepEqual([...(await redis.sMembers("set"))].sort(), ["a", "b"]);
  },

  async zsets() {
    const members = [{ value: "a", score: 1 }, { value: "b", score: 2.5 }];
    assert.equal(await redis.zAdd("zset", members), 2);
    assert.deepEqual(await redis.zRangeWithScores("zset", 0, -1), members);
  },

  async streams() {
    const ids = [];
    for (const n of ["0", "1", "2"]) ids.push(await redis.xAdd("stream", "*", { n }));
    assert.equal(await redis.xGroupCreate("stream", "group", "0"), "OK");
    const read = () => redis.xReadGroup("group", "one", { key: "stream", id: ">" }, { BLOCK: 100 });
    const [{ name, messages }] = await read();
    assert.equal(name, "stream");
    assert.deepEqual(messages.map(({ id, message }) => [id, message.n]), ids.map((id, n) => [id, String(n)]));
    assert.equal(await redis.xAck("stream", "group", [ids[0], ids[2]]), 2);
    assert.equal((await redis.xPending("stream", "group")).pending, 1);
    assert.equal(await read(), null);
  },

  async keysOverSlots() {
    const keys = Array.from({ length: 100 }, (_, i) => `${tag}multi:${i}`);
    assert.equal(await redis.mSet(keys.map((key, i) => [key, String(i)])), "OK");
    assert.deepEqual(await redis.mGet([...keys, `${tag}missing`]), [...keys.map((_, i) => String(i)), null]);
    assert.equal(await redis.del(keys), 100);
  },

  /** What is sent within one tick goes out together. */
  async pipeline() {
    const replies = [];
    for (let i = 0; i < 5000; i++) replies.push(redis.set(`pipe:${i}`, i), redis.get(`pipe:${i}`));
    const wanted = Array.from({ length: 5000 }, (_, i) => ["OK", String(i)]).flat();
    assert.deepEqual(await Promise.all(replies), wanted);
  },

  async transaction() {
    const wrong = redis.multi().set("{tx}text", "words").incrBy("{tx}number", 7).lPush("{tx}text", "no list");
    await assert.rejects(wrong.exec(), ({ replies }) => {
      assert.deepEqual(replies.slice(0, 2), ["OK", 7]);
      assert.match(replies[2].message, /^WRONGTYPE/);
      return true;
    });
  },

  /** Four clients add to one counter by reading and writing it, 25 times each. */
  async watch() {
    const work = async (client) => {
      const node = mode === "cluster" ? await client.getNodeClientForKey("counter") : client;
      for (let done = 0; done < 25; ) {
        await node.watch("counter");
        const n = Number(await node.get("counter"));
        try {
          await node.multi().set("counter", n + 1).exec();
          done++;
        } catch (error) {
          if (error.constructor.name !== "WatchError") throw error; // else another one was faster
        }
      }
    };
    const workers = await Promise.all([connect(), connect(), connect(), connect()]);
    await Promise.all(workers.map(work));
    assert.equal(await redis.get("counter"), "100");
  },

  async pubsub() {
    const subscriber = await connect();
    const messages = [];
    const listener = (text, channel) => messages.push([channel, text]);
    await subscriber.subscribe("news", listener);
    await subscriber.pSubscribe("weather.*", listener);
    for (let i = 0; i < 20; i++) {
      await redis.publish("news", String(i));
      await until(() => messages.length === 2 * i + 1);
      await redis.publish("weather.sea", String(i));
      await until(() => messages.length === 2 * i + 2);
    }
    const wanted = Array.from({ length: 20 }, (_, i) => [["news", String(i)], ["weather.sea", String(i)]]);
    assert.deepEqual(messages, wanted.flat());
    await subscriber.unsubscribe("news");
    await subscriber.pUnsubscribe("weather.*");
  },

  async shardedPubsub() {
    const subscriber = await connect();
    const messages = [];
    await subscriber.sSubscribe("shard", (text, channel) => messages.push([channel, text]));
    for (let i = 0; i < 20; i++) await redis.sPublish("shard", String(i));
    await until(() => messages.length === 20);
    assert.deepEqual(messages, Array.from({ length: 20 }, (_, i) => ["shard", String(i)]));
    await subscriber.sUnsubscribe("shard");
  },

  async blocking() {
    const popper = await connect();
    assert.equal(await popper.blPop("queue", 0.2), null);
    const popped = popper.blPop("queue", 10);
    await sleep(100); // so that the pop is waiting
    assert.equal(await redis.rPush("queue", "job"), 1);
    assert.deepEqual({ ...(await popped) }, { key: "queue", element: "job" });
  },

  async scripts() {
    const sha = () => redis.evalSha(scripts.addOne.SHA1, { keys: ["script"], arguments: ["41"] });
    await assert.rejects(sha(), /NOSCRIPT/);
    assert.deepEqual(await redis.addOne("script", 41), ["script", 42]); // EVALSHA, then EVAL
    assert.deepEqual(await redis.addOne("script", 42), ["script", 43]); // EVALSHA
    assert.deepEqual(await sha(), ["script", 42]);
  },

  async scan() {
    await Promise.all(Array.from({ length: 10000 }, (_, i) => redis.set(`scan:${i}`, "")));
    const nodes = mode === "cluster" ? await Promise.all(redis.masters.map((master) => redis.nodeClient(master))) : [redis];
    const seen = new Set();
    for (const node of nodes) {
      for await (const keys of node.scanIterator({ MATCH: "scan:*", COUNT: 100 })) keys.forEach((key) => seen.add(key));
    }
    assert.equal(seen.size, 10000);
  },

  async largeValue() {
    const large = Buffer.alloc(16 << 20, "0123456789abcde\n");
    assert.equal(await redis.set("large", large), "OK");
    assert.ok(large.equals(await bytesOf("large")), "16 MB come back");
  },

  /** All connections are killed, and the client, once it has noticed, goes on. */
  async reconnect() {
    const killer = await createClient({ url }).connect();
    clients.push(killer);
    assert.ok((await killer.clientKill([{ filter: "TYPE", type: "normal" }, { filter: "SKIPME", skipMe: true }])) > 0, "some were killed");
    for (const end = Date.now() + 10000; ; await sleep(10)) {
      try {
        for (let i = 0; i < 20; i++) assert.equal(await redis.set(`back:${i}`, i), "OK");
        break;
      } catch (error) {
        if (Date.now() > end) throw error;
      }
    }
  },

  async locks() {
    if (direct) return;
    const call = (...args) => redis.sendCommand(...(mode === "cluster" ? [args[1], false, args] : [args]));
    assert.ok((await call("LOCK.ACQUIRE", "order:42")) > 0, "a token");
    assert.equal(await call("LOCK.ACQUIRE", "order:42"), null);
    assert.equal(await call("LOCK.RELEASE", "order:42"), 1); // what this connection took last
  },

  async lockOfTheReadme() {
    if (direct || mode === "cluster") return;
    const call = (...args) => redis.sendCommand(args);
    const freed = async () => {
      assert.ok((await call("LOCK.ACQUIRE", "order:42", "BLOCK", "5000")) > 0, "it is free");
      assert.equal(await call("LOCK.RELEASE", "order:42"), 1);
    };
    await locked(url, async () => assert.equal(await call("LOCK.ACQUIRE", "order:42"), null));
    await freed();
    await assert.rejects(locked(url, async () => assert.fail("at work")), /at work/);
    await freed();
    const lost = locked(url, async (c) => {
      await redis.clientKill({ filter: "ID", id: await c.clientId() });
      await c.get("stock:42");
    });
    await assert.rejects(lost, /[Cc]losed/);
    await redis.del("order:42"); // Leash leaves it to run out
  },

  /** The whole program of docs/clients.md, with a password. */
  async programOfTheDocs() {
    if (direct || mode === "cluster") return;
    await redis.set("stock:42", "7");
    const env = { ...process.env, REDIS_URL: `${scheme}://shop:open-sesame@${host}:${port}` };
    const { stdout } = await promisify(execFile)(process.execPath, ["example.js"], { env });
    assert.match(stdout, /^token \d+ stock 7\n$/);
    await assert.rejects(promisify(execFile)(process.execPath, ["example.js"], { env: { ...env, REDIS_URL: env.REDIS_URL.replace("open", "shut") } }), /WRONGPASS/);
  },
};

/** The value of a key as a Buffer. */
function bytesOf(key) {
  return redis.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer }).get(key);
}

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
clients.forEach((client) => client.destroy());
