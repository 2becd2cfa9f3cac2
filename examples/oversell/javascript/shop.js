// The shop that oversells, in JavaScript.
//
//     examples/oversell/javascript/run
//
// Ten customers want a piece of which five are left. One payment takes long. The example needs a
// Leash at 127.0.0.1:6380 (go run .) or at the address in LEASH_SERVER.

import { createClient } from "redis";

const pieces = 5;
const customers = 10;
const payment = 50; // in milliseconds, as all times here
const slowPayment = 1500;
const lockTime = 500;
const url = `redis://${process.env.LEASH_SERVER ?? "127.0.0.1:6380"}`;

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// connect opens a connection of its own for each customer: a lock belongs to a connection.
async function connect() {
  const c = createClient({ url, socket: { reconnectStrategy: false } });
  c.on("error", () => {}); // a failed command rejects its promise
  await c.connect();
  return c;
}

// buy is what every shop does.
async function buy(c, pay) {
  const stock = Number(await c.get("stock"));
  if (stock === 0) return false;
  await pay();
  await c.set("stock", stock - 1);
  return true;
}

// buyWithSetNX takes a lock that ends after a fixed time, whether the work is done or not.
async function buyWithSetNX(c, pay) {
  while ((await c.sendCommand(["SET", "lock:setnx", "me", "NX", "PX", String(lockTime)])) === null) {
    await sleep(5);
  }
  try {
    return await buy(c, pay);
  } finally {
    await c.del("lock:setnx");
  }
}

// buyWithLeash takes a lock that ends with the connection. Leash renews it until then.
async function buyWithLeash(c, pay) {
  const token = await c.sendCommand(["LOCK.ACQUIRE", "stock:lock", "BLOCK", "0"]);
  try {
    return await buy(c, pay);
  } finally {
    await c.sendCommand(["LOCK.RELEASE", "stock:lock", "TOKEN", String(token)]);
  }
}

// open fills the shop, lets the customers in and returns how many of them paid.
async function open(sell) {
  const owner = await connect();
  await owner.set("stock", pieces);
  let first = true;
  const pay = () => {
    const took = first ? slowPayment : payment;
    first = false;
    return sleep(took);
  };
  const sales = Array.from({ length: customers }, async () => {
    const c = await connect();
    try {
      return await sell(c, pay);
    } finally {
      c.destroy();
    }
  });
  const sold = (await Promise.all(sales)).filter(Boolean).length;
  owner.destroy();
  return sold;
}

for (const [name, sell] of [["without a lock", buy], ["with SET NX PX", buyWithSetNX], ["with Leash", buyWithLeash]]) {
  const sold = await open(sell);
  const verdict = sold > pieces ? `${sold - pieces} paid for nothing` : "as it should be";
  console.log(`${(name + ":").padEnd(15)} ${pieces} pieces, ${sold} sold: ${verdict}`);
}
