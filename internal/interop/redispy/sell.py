"""Sells one piece, as docs/getting-started.md shows."""

# docs
import os
import sys
import time

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

r = redis.Redis.from_url(os.environ["REDIS_URL"], retry=Retry(NoBackoff(), 0), socket_timeout=15)


def sell(c):
    stock = int(c.get("stock:42"))
    if stock == 0:
        print("sold out")
        return
    time.sleep(1)  # the customer pays
    c.set("stock:42", stock - 1)
    print("sold one")


with r.client() as c:  # the lock, the work and the release share this connection
    if "--no-lock" in sys.argv:
        sell(c)
        sys.exit()
    token = c.execute_command("LOCK.ACQUIRE", "order:42", "BLOCK", 10000)
    if token is None:
        raise TimeoutError("order:42 is taken")
    try:
        sell(c)
    finally:
        c.execute_command("LOCK.RELEASE", "order:42", "TOKEN", token)
# end of docs
