"""Fences a table off with tokens as the README says."""

import sqlite3
import time


# README
def write(db, token, amount):
    with db:
        done = db.execute("UPDATE stock SET amount = ?, token = ? WHERE item = 42 AND token <= ?", (amount, token, token))
    if done.rowcount == 0:
        raise PermissionError(f"token {token} is stale")


# end of README


def stale_write(r):
    """Returns the error of a holder that was paused, and what it has not overwritten."""
    db = sqlite3.connect(":memory:")
    # README
    db.execute("CREATE TABLE stock (item INTEGER PRIMARY KEY, amount INTEGER, token INTEGER)")
    db.execute("INSERT INTO stock VALUES (42, 8, 0)")

    first = r.execute_command("LOCK.ACQUIRE", "order:42", "LEASE", 200)
    write(db, first, 7)
    time.sleep(0.5)  # the first holder is paused for longer than it has the lock
    second = r.execute_command("LOCK.ACQUIRE", "order:42", "BLOCK", 10000)
    write(db, second, 6)
    try:
        write(db, first, 5)  # it wakes up, and does not know
    except PermissionError as error:
        refused = error
    # end of README
    r.execute_command("LOCK.RELEASE", "order:42", "TOKEN", second)
    return refused, first, second, db.execute("SELECT amount, token FROM stock").fetchall()
