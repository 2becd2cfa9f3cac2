// docs
import { Redis } from "ioredis";

const c = new Redis(process.env.REDIS_URL, { retryStrategy: null }); // no reconnect
c.on("error", () => {}); // a failed command rejects its promise
try {
  const token = await c.call("LOCK.ACQUIRE", "order:42", "BLOCK", 10000);
  if (token === null) throw new Error("order:42 is taken");
  console.log("token", token, "stock", await c.get("stock:42"));
  await c.call("LOCK.RELEASE", "order:42", "TOKEN", token);
} finally {
  c.disconnect(); // the end of the connection releases the lock
}
// end of docs
