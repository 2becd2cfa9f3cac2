// docs
import { createClient } from "redis";

const socket = { reconnectStrategy: false }; // a lost connection stays lost
const c = createClient({ url: process.env.REDIS_URL, socket }); // for this lock alone
c.on("error", () => {}); // a failed command rejects its promise
await c.connect();
try {
  const token = await c.sendCommand(["LOCK.ACQUIRE", "order:42", "BLOCK", "10000"]);
  if (token === null) throw new Error("order:42 is taken");
  console.log("token", token, "stock", await c.get("stock:42"));
  await c.sendCommand(["LOCK.RELEASE", "order:42", "TOKEN", String(token)]);
} finally {
  if (c.isOpen) c.destroy(); // the end of the connection releases the lock
}
// end of docs
