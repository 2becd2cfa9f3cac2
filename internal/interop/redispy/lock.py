"""Holds a lock as README.md shows."""

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry


def locked(host, port, work):
    # README
    r = redis.Redis(host=host, port=port, retry=Retry(NoBackoff(), 0), socket_timeout=15)

    with r.client() as c:  # the lock, the work and the release share this connection
        token = c.execute_command("LOCK.ACQUIRE", "order:42", "BLOCK", 10000)
        if token is None:
            raise TimeoutError("order:42 is taken")
        try:
            work(c)
        finally:
            c.execute_command("LOCK.RELEASE", "order:42", "TOKEN", token)
    # end of README
    r.close()


def with_password(host, port):
    # docs
    r = redis.Redis(
        host=host, port=port, username="shop", password="open-sesame",
        retry=Retry(NoBackoff(), 0), socket_timeout=15,
    )
    # end of docs
    return r
