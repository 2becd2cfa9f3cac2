"""Holds a lock as docs/clients.md shows, with asyncio."""

import redis.asyncio as redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff


async def locked(host, port, work):
    # docs
    r = redis.Redis(host=host, port=port, retry=Retry(NoBackoff(), 0), socket_timeout=15)

    async with r.client() as c:  # the lock, the work and the release share this connection
        token = await c.execute_command("LOCK.ACQUIRE", "order:42", "BLOCK", 10000)
        if token is None:
            raise TimeoutError("order:42 is taken")
        try:
            await work(c)
        finally:
            await c.execute_command("LOCK.RELEASE", "order:42", "TOKEN", token)
    # end of docs
    await r.aclose()
