import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RedissonClient;

/** RReadWriteLock and LOCK.ACQUIRE with READ and WRITE. */
final class ReadWriteLocks {
  private final Sides sides;

  ReadWriteLocks(Sides sides) {
    this.sides = sides;
  }

  void addTo(Steps steps) {
    steps.add("read-write: readers share", this::readersShare);
    steps.add("read-write: a writer is alone", this::writerIsAlone);
    steps.add("read-write: a writer goes on as reader", this::downgrade);
    steps.add("read-write: kinds do not mix", this::kinds);
    steps.add("read-write: leases end", this::leasesEnd);
    steps.add("read-write: watchdogs of readers", this::watchdogs);
    steps.add("read-write: forceUnlock", this::forceUnlock);
    steps.addAlone("read-write: a writer wakes all readers", this::allReadersWake);
    steps.addAlone("read-write: wake-ups of writers", () -> contest().wakeUps());
    steps.addAlone("read-write: counter", () -> contest().exactCounter());
  }

  // A writer's release wakes those threads of Redisson that are queued, not one that has just found the lock taken and is
  // about to queue. That one waits for the time to live, also where there is only Java: hence a brief one.
  private Contest contest() {
    String name = sides.name("rw-contest");
    RLock lock = sides.brief().getReadWriteLock(name).writeLock();
    return Contest.forLock(sides, name, lock, "WRITE", "TTL", Sides.BRIEF).shorter();
  }

  private RReadWriteLock lock(String name) {
    return sides.redisson().getReadWriteLock(name);
  }

  /** In whatever order they come and go, the last one to go lets the writer in. */
  private String readersShare() {
    for (boolean javaFirst : new boolean[] {true, false}) {
      String name = sides.name("rw-share");
      RLock read = lock(name).readLock();
      RLock write = lock(name).writeLock();
      Leash leash = sides.leash();
      read.lock();
      Object token = leash.call("LOCK.ACQUIRE", name, "READ");
      Checks.expect("READ beside a Java reader", token instanceof Long, true);
      Checks.expect("isLocked", read.isLocked(), true);
      Checks.expect("isLocked of the write lock", write.isLocked(), false);
      Checks.expect("a second Leash reader", sides.leash().call("LOCK.ACQUIRE", name, "READ", "LEASE", 1000) != null, true);
      Checks.expect("tryLock of a writer", write.tryLock(), false);
      Checks.expect("WRITE", leash.call("LOCK.ACQUIRE", name, "WRITE"), null);
      if (javaFirst) {
        read.unlock();
        Checks.expect("tryLock of a writer, Leash still reads", write.tryLock(), false);
        leash.call("LOCK.RELEASE", name, "READ", "TOKEN", token);
      } else {
        leash.call("LOCK.RELEASE", name, "READ", "TOKEN", token);
        Checks.expect("WRITE, Java still reads", leash.call("LOCK.ACQUIRE", name, "WRITE"), null);
        Checks.expectBetween("remainTimeToLive", read.remainTimeToLive(), 20_000, 30_000);
        read.unlock();
      }
      // The second reader of Leash's has a lease of its own, which now is what the lock lives for.
      Checks.expectBetween("remainTimeToLive of what is left", read.remainTimeToLive(), 1, 1000);
      Object writer = leash.call("LOCK.ACQUIRE", name, "WRITE", "BLOCK", 5000);
      Checks.expect("WRITE when the last lease is over", writer instanceof Long, true);
    }
    return "";
  }

  private String writerIsAlone() {
    String name = sides.name("rw-alone");
    RLock read = lock(name).readLock();
    RLock write = lock(name).writeLock();
    Leash leash = sides.leash();
    write.lock();
    Checks.expect("READ under a Java writer", leash.call("LOCK.ACQUIRE", name, "READ"), null);
    Checks.expect("WRITE under a Java writer", leash.call("LOCK.ACQUIRE", name, "WRITE"), null);
    write.unlock();
    Object token = leash.call("LOCK.ACQUIRE", name, "WRITE");
    Checks.expect("WRITE", token instanceof Long, true);
    Checks.expect("tryLock of a reader", read.tryLock(), false);
    Checks.expect("tryLock of a writer", write.tryLock(), false);
    Checks.expect("isLocked of the write lock", write.isLocked(), true);
    Checks.expect("isLocked of the read lock", read.isLocked(), false);
    Checks.expect("LOCK.RELEASE", leash.call("LOCK.RELEASE", name, "WRITE", "TOKEN", token), 1L);
    Checks.expect("tryLock of a writer when it is free", write.tryLock(), true);
    write.unlock();
    return "";
  }

  private String downgrade() {
    String name = sides.name("rw-down");
    RLock read = lock(name).readLock();
    RLock write = lock(name).writeLock();
    Leash leash = sides.leash();
    write.lock();
    read.lock();
    Checks.expect("READ before Java has let go of the write lock", leash.call("LOCK.ACQUIRE", name, "READ"), null);
    write.unlock();
    Object token = leash.call("LOCK.ACQUIRE", name, "READ");
    Checks.expect("READ beside Java, which reads only now", token instanceof Long, true);
    read.unlock();
    leash.call("LOCK.RELEASE", name, "READ", "TOKEN", token);

    leash.call("LOCK.ACQUIRE", name, "WRITE", "OWNER", "clerk:1");
    Checks.expect("READ of the writer", leash.call("LOCK.ACQUIRE", name, "READ", "OWNER", "clerk:1") instanceof Long, true);
    Checks.expect("tryLock of a reader", read.tryLock(), false);
    leash.call("LOCK.RELEASE", name, "WRITE", "OWNER", "clerk:1");
    Checks.expect("tryLock of a reader beside Leash, which reads only now", read.tryLock(), true);
    Checks.expect("tryLock of a writer", write.tryLock(), false);
    leash.call("LOCK.RELEASE", name, "READ", "OWNER", "clerk:1");
    read.unlock();
    Checks.expect("tryLock of a writer when all are gone", write.tryLock(), true);
    write.unlock();
    return "";
  }

  private String kinds() {
    String name = sides.name("rw-kinds");
    Leash leash = sides.leash();
    RLock plain = sides.redisson().getLock(name);
    plain.lock();
    Checks.expect("READ of a plain lock", leash.call("LOCK.ACQUIRE", name, "READ"), null);
    Checks.expect("WRITE of a plain lock", leash.call("LOCK.ACQUIRE", name, "WRITE"), null);
    plain.unlock();
    lock(name).readLock().lock();
    Checks.expect("a plain acquire under a reader", leash.call("LOCK.ACQUIRE", name), null);
    lock(name).readLock().unlock();
    return "";
  }

  /** The writer gets in when the longest lease of a reader is over, whichever side has it. */
  private String leasesEnd() throws Exception {
    for (boolean javaLonger : new boolean[] {true, false}) {
      String name = sides.name("rw-leases");
      Leash leash = sides.leash();
      long began = System.nanoTime();
      lock(name).readLock().lock(javaLonger ? 700 : 300, TimeUnit.MILLISECONDS);
      leash.call("LOCK.ACQUIRE", name, "READ", "LEASE", javaLonger ? 300 : 700);
      if (javaLonger) {
        Leash writer = sides.leash(); // on a connection that reads itself it would wait for itself
        Object token = writer.call("LOCK.ACQUIRE", name, "WRITE", "BLOCK", 0);
        Checks.expectBetween("ms until Leash wrote", Locks.millisSince(began), 690, 5000);
        writer.call("LOCK.RELEASE", name, "TOKEN", token);
      } else {
        Checks.expect("tryLock(5 s) of a writer", lock(name).writeLock().tryLock(5, TimeUnit.SECONDS), true);
        Checks.expectBetween("ms until Java wrote", Locks.millisSince(began), 690, 5000);
        lock(name).writeLock().unlock();
      }
    }
    return "";
  }

  /** A reader's release must not shorten what the others have, nor their renewal end. */
  private String watchdogs() {
    String name = sides.name("rw-watchdogs");
    Leash leash = sides.leash();
    RedissonClient other = sides.connect(600);
    try {
      RLock read = other.getReadWriteLock(name).readLock();
      RLock write = other.getReadWriteLock(name).writeLock();
      Object token = leash.call("LOCK.ACQUIRE", name, "READ", "TTL", 600);
      read.lock();
      Checks.expect("WRITE while both read", sides.leash().call("LOCK.ACQUIRE", name, "WRITE", "BLOCK", 900), null);
      read.unlock();
      Checks.expect("tryLock(900 ms) of a writer while Leash reads", tryLock(write, 900), false);
      read.lock();
      leash.call("LOCK.RELEASE", name, "READ", "TOKEN", token);
      Checks.expect("WRITE while Java reads", sides.leash().call("LOCK.ACQUIRE", name, "WRITE", "BLOCK", 900), null);
      read.unlock();
      Checks.expect("tryLock of a writer when all are gone", write.tryLock(), true);
      write.unlock();
    } finally {
      other.shutdown(0, 1, TimeUnit.SECONDS);
    }
    return "";
  }

  private static boolean tryLock(RLock lock, long millis) {
    try {
      return lock.tryLock(millis, TimeUnit.MILLISECONDS);
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  private String forceUnlock() throws Exception {
    String name = sides.name("rw-force");
    Leash reader = sides.leash();
    reader.call("LOCK.ACQUIRE", name, "READ", "TTL", 1500);
    Checks.expect("forceUnlock of a writer that is none", lock(name).writeLock().forceUnlock(), false);
    Checks.expect("forceUnlock of a reader", lock(name).readLock().forceUnlock(), true);
    reader.awaitClose();
    Leash writer = sides.leash();
    Checks.expect("WRITE", writer.call("LOCK.ACQUIRE", name, "WRITE", "TTL", 1500) instanceof Long, true);
    Checks.expect("forceUnlock of a writer", lock(name).writeLock().forceUnlock(), true);
    writer.awaitClose();
    return "";
  }

  /** Three readers of each side wait for a writer of either. */
  private String allReadersWake() throws Exception {
    String name = sides.name("rw-readers");
    RReadWriteLock lock = sides.brief().getReadWriteLock(name);
    List<Member> readers = new ArrayList<>();
    for (int i = 0; i < 3; i++) {
      readers.add(sides.member(Member.OfRedisson.of(sides.redisson(), lock.readLock())));
      readers.add(sides.member(Member.OfLeash.of(sides.leash(), name, "READ")));
    }
    Member leash = sides.member(Member.OfLeash.of(sides.leash(), name, "WRITE", "TTL", Sides.BRIEF));
    Member java = sides.member(Member.OfRedisson.of(sides.redisson(), lock.writeLock()));
    return String.format("all read %.1f ms after a writer of Leash's, %.1f after one of Java's", wake(leash, readers), wake(java, readers));
  }

  private static double wake(Member writer, List<Member> readers) throws Exception {
    writer.lockNow();
    List<Future<Long>> granted = readers.stream().map(Member::beginLock).toList();
    Thread.sleep(100); // so that they are waiting
    long released = System.nanoTime();
    writer.unlockNow();
    double last = 0;
    for (Future<Long> each : granted) {
      last = Math.max(last, (Member.await(each) - released) / 1e6);
    }
    for (Member reader : readers) {
      reader.unlockNow();
    }
    Checks.expectAtMost("ms until all read", last, Contest.WORST_MILLIS);
    return last;
  }
}
