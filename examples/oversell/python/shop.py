"""The shop that oversells, in Python: the stock is in Redis, and then in an SQL database.

    examples/oversell/python/run

Ten customers want a piece of which five are left. One payment takes long. The example needs a Leash
at 127.0.0.1:6380 (go run .) or at the address in LEASH_SERVER.
"""

import os
import sqlite3
import tempfile
import threading
import time

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

PIECES, CUSTOMERS = 5, 10
PAYMENT, SLOW_PAYMENT, LOCK_TIME = 0.05, 1.5, 0.5  # in seconds
host, _, port = os.environ.get("LEASH_SERVER", "127.0.0.1:6380").rpartition(":")
leash = redis.Redis(host=host, port=int(port), retry=Retry(NoBackoff(), 0), socket_timeout=60)


class RedisStock:
    """The stock in Redis. It does not look at the fencing token."""

    def fill(self):
        leash.set("stock", PIECES)

    def read(self):
        return int(leash.get("stock"))

    def write(self, pieces, token):
        leash.set("stock", pieces)


class SQLStock:
    """The stock in a table that remembers the newest fencing token, and refuses older ones."""

    def __init__(self, directory):
        self.path = os.path.join(directory, "shop.db")
        with sqlite3.connect(self.path) as db:
            db.execute("CREATE TABLE stock (pieces INTEGER, token INTEGER)")

    def fill(self):
        with sqlite3.connect(self.path) as db:
            db.execute("DELETE FROM stock")
            db.execute("INSERT INTO stock VALUES (?, 0)", (PIECES,))

    def read(self):
        with sqlite3.connect(self.path) as db:
            return db.execute("SELECT pieces FROM stock").fetchone()[0]

    def write(self, pieces, token):
        with sqlite3.connect(self.path) as db:
            done = db.execute("UPDATE stock SET pieces = ?, token = ? WHERE token <= ?", (pieces, token, token))
            if done.rowcount == 0:
                raise PermissionError(f"token {token} is stale")


def buy(stock, pay, token=0):
    """What every shop does. It returns the number of pieces that were sold."""
    pieces = stock.read()
    if pieces == 0:
        return 0
    pay()
    stock.write(pieces - 1, token)
    return 1


def buy_with_set_nx(stock, pay):
    """Takes a lock that ends after a fixed time, whether the work is done or not."""
    while not leash.set("lock:setnx", "me", nx=True, px=int(LOCK_TIME * 1000)):
        time.sleep(0.005)
    try:
        return buy(stock, pay)
    finally:
        leash.delete("lock:setnx")


def buy_with_leash(stock, pay):
    """Takes a lock that ends with the connection. Leash renews it until then."""
    with leash.client() as c:  # the lock and the release share this connection
        token = c.execute_command("LOCK.ACQUIRE", "stock:lock", "BLOCK", 0)
        try:
            return buy(stock, pay, token)
        finally:
            c.execute_command("LOCK.RELEASE", "stock:lock", "TOKEN", token)


def open_shop(stock, sell):
    """Lets the customers in, and returns how many of them paid."""
    stock.fill()
    first, sold = threading.Lock(), []

    def pay():
        time.sleep(SLOW_PAYMENT if first.acquire(blocking=False) else PAYMENT)

    customers = [threading.Thread(target=lambda: sold.append(sell(stock, pay))) for _ in range(CUSTOMERS)]
    for customer in customers:
        customer.start()
    for customer in customers:
        customer.join()
    return sum(sold)


def late_write(stock):
    """Lets a customer wake up after its lock has ended. Returns what became of the write."""
    stock.fill()
    first = leash.execute_command("LOCK.ACQUIRE", "stock:lock", "LEASE", 200)  # a lock that nobody renews
    pieces = stock.read()
    time.sleep(0.5)  # a payment that takes longer than the lock
    buy_with_leash(stock, pay=lambda: None)
    try:
        stock.write(pieces - 1, first)
    except PermissionError as error:
        return f"refused, {error}"
    return "overwrites the sale of another customer"


with tempfile.TemporaryDirectory() as directory:
    stocks = {"Redis": RedisStock(), "SQL": SQLStock(directory)}
    ways = {"without a lock": buy, "with SET NX PX": buy_with_set_nx, "with Leash": buy_with_leash}
    for place, stock in stocks.items():
        for name, sell in ways.items():
            sold = open_shop(stock, sell)
            verdict = "as it should be" if sold <= PIECES else f"{sold - PIECES} paid for nothing"
            print(f"{place:5} {name + ':':15} {PIECES} pieces, {sold} sold: {verdict}")
    for place, stock in stocks.items():
        print(f"{place:5} a write after the end of its lock: {late_write(stock)}")
