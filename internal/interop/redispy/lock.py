"""Holds a lock as the README says."""

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry


def locked(host, port, work):
    # README
    r = redis.Redis(host=host, port=port, retry=Retry(NoBackoff(), 0), socket_timeout=15)

    with r.client() as c:  # one connection of the pool for all of it
        token = c.execute_command("LOCK.ACQUIRE", "order:42", "BLOCK", 10000)
        if token is None:
            raise TimeoutError("order:42 is taken")
        try:
            work(c)
        finally:
            c.execute_command("LOCK.RELEASE", "order:42", "TOKEN", token)
    # end of README
    r.close()
