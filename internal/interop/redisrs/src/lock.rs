//! Holds a lock as docs/clients.md shows.

use redis::Connection;

use crate::Outcome;

pub fn locked(url: &str, work: impl FnOnce(&mut Connection) -> Outcome) -> Outcome {
    // docs
    let mut c = redis::Client::open(url)?.get_connection()?; // for this lock alone
    let mut acquire = redis::cmd("LOCK.ACQUIRE");
    acquire.arg("order:42").arg("BLOCK").arg(10000);
    let token: Option<i64> = acquire.query(&mut c)?;
    let token = token.ok_or("order:42 is taken")?;

    work(&mut c)?; // after an error, the end of the connection releases the lock
    redis::cmd("LOCK.RELEASE").arg("order:42").arg("TOKEN").arg(token).exec(&mut c)?;
    // end of docs
    Ok(())
}
