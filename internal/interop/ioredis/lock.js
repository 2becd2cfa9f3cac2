// Holds a lock as the README says.

import { Redis } from "ioredis";

export async function locked(host, port, work) {
  // README
  const c = new Redis({ host, port, retryStrategy: null }); // for this hold alone; it ends for good when it is lost
  c.on("error", () => {}); // what fails is rejected below
  try {
    const token = await c.call("LOCK.ACQUIRE", "order:42", "BLOCK", 10000);
    if (token === null) throw new Error("order:42 is taken");
    await work(c);
    await c.call("LOCK.RELEASE", "order:42", "TOKEN", token);
  } finally {
    c.disconnect(); // releases what is not released
  }
  // end of README
}
