// Holds a lock as the README says.

import { createClient } from "redis";

export async function locked(url, work) {
  // README
  const c = createClient({ url, socket: { reconnectStrategy: false } }); // for this hold alone; it ends for good when it is lost
  c.on("error", () => {}); // what fails is rejected below
  await c.connect();
  try {
    const token = await c.sendCommand(["LOCK.ACQUIRE", "order:42", "BLOCK", "10000"]);
    if (token === null) throw new Error("order:42 is taken");
    await work(c);
    await c.sendCommand(["LOCK.RELEASE", "order:42", "TOKEN", String(token)]);
  } finally {
    if (c.isOpen) c.destroy(); // releases what is not released
  }
  // end of README
}
