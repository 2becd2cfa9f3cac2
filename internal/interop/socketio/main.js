// Runs socket.io with three servers on two Leashes:
// node main.js host port standalone|cluster host:port. The last argument is the second Leash.
//
// Each step is an adapter, a client library and three servers, with one browser at each. Every
// server must count three servers, and a broadcast of one must reach the browsers of all.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { createAdapter, createShardedAdapter } from "@socket.io/redis-adapter";
import { Cluster, Redis } from "ioredis";
import { createClient, createCluster } from "redis";
import { Server } from "socket.io";
import { io as browser } from "socket.io-client";

const [host, port, mode, second] = process.argv.slice(2);
const secure = Boolean(process.env.INTEROP_TLS);
const leashes = [`${host}:${port}`, `${host}:${port}`, second]; // of the three servers

/** The client libraries: each makes a client that is connected to an address. */
const libraries = {
  async redis(address) {
    const url = `${secure ? "rediss" : "redis"}://${address}`;
    const cluster = mode === "cluster";
    const client = cluster ? createCluster({ rootNodes: [{ url }], defaults: { socket: { tls: secure } } }) : createClient({ url });
    client.on("error", (error) => assert.fail(error));
    await client.connect();
    return { client, close: () => client.close() };
  },

  async ioredis(address) {
    const [host, port] = address.split(":");
    const tls = secure ? {} : undefined;
    // Without shardedSubscribers, sharded messages never arrive. By default it gives up after a second.
    const options = { shardedSubscribers: true, slotsRefreshTimeout: 5000, redisOptions: { tls } };
    const cluster = mode === "cluster";
    const client = cluster ? new Cluster([{ host, port }], options) : new Redis({ host, port, tls });
    client.on("error", (error) => assert.fail(error));
    return { client, close: () => client.quit() };
  },
};

const adapters = { classic: createAdapter, sharded: createShardedAdapter };

/** A server of socket.io with one browser. */
async function start(connect, makeAdapter, address) {
  const publisher = await connect(address);
  const subscriber = await connect(address);
  const http = createServer();
  const io = new Server(http, { adapter: makeAdapter(publisher.client, subscriber.client) });
  await new Promise((done) => http.listen(0, "127.0.0.1", done));
  const socket = browser(`http://127.0.0.1:${http.address().port}`, { transports: ["websocket"] });
  await new Promise((done) => socket.on("connect", done));
  const close = async () => {
    socket.disconnect();
    await io.close();
    await publisher.close();
    await subscriber.close();
  };
  return { io, socket, close };
}

async function step(connect, makeAdapter) {
  const servers = await Promise.all(leashes.map((address) => start(connect, makeAdapter, address)));
  const counts = () => Promise.all(servers.map(({ io }) => io.of("/").adapter.serverCount()));
  for (const end = Date.now() + 5000; ; await sleep(20)) {
    const got = await counts();
    if (got.every((count) => count === 3)) break;
    assert.ok(Date.now() < end, `each server counts ${got} servers, not 3`);
  }
  for (const [from, { io }] of servers.entries()) {
    const heard = servers.map(({ socket }) => new Promise((done) => socket.once("news", done)));
    io.emit("news", from);
    assert.deepEqual(await within(5000, Promise.all(heard)), [from, from, from]);

    servers.forEach(({ socket }, n) => socket.once("who", (answer) => answer(n)));
    const answers = await io.timeout(5000).emitWithAck("who");
    assert.deepEqual(answers.sort(), [0, 1, 2]);
    assert.equal((await io.fetchSockets()).length, 3);
  }
  await Promise.all(servers.map(({ close }) => close()));
}

function within(millis, promise) {
  const tooLate = () => assert.fail("a broadcast did not arrive");
  const late = sleep(millis, null, { ref: false }).then(tooLate);
  return Promise.race([promise, late]);
}

for (const [library, connect] of Object.entries(libraries)) {
  for (const [name, makeAdapter] of Object.entries(adapters)) {
    try {
      await step(connect, makeAdapter);
      console.log("ok", name, library);
    } catch (error) {
      console.log(`FAILED ${name} ${library}: ${error.stack}`);
      process.exit(1); // what was started may still run
    }
  }
}
process.exit(); // not waiting for the timers of the adapters
