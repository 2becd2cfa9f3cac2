// Holds a lock as docs/clients.md shows.

import { createClient } from "redis";

export async function locked(url, work) {
  // docs
  const c = createClient({ url, socket: { reconnectStrategy: false } }); // for this lock alone
  c.on("error", () => {}); // a failed command rejects its promise
  await c.connect();
  try {
    const token = await c.sendCommand(["LOCK.ACQUIRE", "order:42", "BLOCK", "10000"]);
    if (token === null) throw new Error("order:42 is taken");
    await work(c);
    await c.sendCommand(["LOCK.RELEASE", "order:42", "TOKEN", String(token)]);
  } finally {
    if (c.isOpen) c.destroy(); // the end of the connection releases the lock
  }
  // end of docs
}
