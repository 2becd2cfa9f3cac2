// Holds a lock as README.md shows.

import { Redis } from "ioredis";

export async function locked(host, port, work) {
  // README
  const c = new Redis({ host, port, retryStrategy: null }); // for this lock alone, no reconnect
  c.on("error", () => {}); // a failed command rejects its promise
  try {
    const token = await c.call("LOCK.ACQUIRE", "order:42", "BLOCK", 10000);
    if (token === null) throw new Error("order:42 is taken");
    await work(c);
    await c.call("LOCK.RELEASE", "order:42", "TOKEN", token);
  } finally {
    c.disconnect(); // the end of the connection releases the lock
  }
  // end of README
}
