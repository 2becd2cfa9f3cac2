import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** RLock and LOCK.ACQUIRE. */
final class Locks {
  private final Sides sides;

  Locks(Sides sides) {
    this.sides = sides;
  }

  void addTo(Steps steps) {
    steps.add("lock: what Java sees of a hold of Leash's", this::seenByJava);
    steps.add("lock: what Leash says of a hold of Java's", this::seenByLeash);
    steps.add("lock: names", this::names);
    steps.add("lock: owners of Leash's count up", this::reentryOfLeash);
    steps.add("lock: time-outs", this::timeouts);
    steps.add("lock: leases end", this::leasesEnd);
    steps.add("lock: forceUnlock", this::forceUnlock);
    steps.add("lock: a connection closes", this::disconnect);
    steps.add("lock: watchdogs", this::watchdogs);
    steps.add("lock: watchdogs of many", this::manyWatchdogs);
    steps.add("lock: spin and multi locks", this::spinAndMulti);
    steps.addAlone("lock: wake-ups", () -> contest().wakeUps());
    steps.addAlone("lock: counter", () -> contest().exactCounter());
  }

  private Contest contest() {
    String name = sides.name("contest");
    return Contest.forLock(sides, name, lock(name));
  }

  private RLock lock(String name) {
    return sides.redisson().getLock(name);
  }

  private String seenByJava() {
    String name = sides.name("seen");
    RLock lock = lock(name);
    Checks.expect("isLocked of a free lock", lock.isLocked(), false);
    Checks.expect("remainTimeToLive of a free lock", lock.remainTimeToLive(), -2L);
    Leash leash = sides.leash();
    Object token = leash.call("LOCK.ACQUIRE", name, "TTL", 5000);
    Checks.expect("isLocked", lock.isLocked(), true);
    Checks.expectBetween("remainTimeToLive", lock.remainTimeToLive(), 1, 5000);
    Checks.expect("isHeldByCurrentThread", lock.isHeldByCurrentThread(), false);
    Checks.expect("getHoldCount", lock.getHoldCount(), 0);
    Checks.expect("tryLock", lock.tryLock(), false);
    Checks.expectThrows("unlock of what Leash holds", IllegalMonitorStateException.class, () -> {
      lock.unlock();
      return "nothing";
    });
    Checks.expect("LOCK.RELEASE", leash.call("LOCK.RELEASE", name, "TOKEN", token), 1L);
    Checks.expect("isLocked after the release", lock.isLocked(), false);
    Checks.expect("tryLock after the release", lock.tryLock(), true);
    lock.unlock();
    return "";
  }

  private String seenByLeash() {
    String name = sides.name("seen");
    RLock lock = lock(name);
    Leash leash = sides.leash();
    lock.lock();
    lock.lock();
    Checks.expect("getHoldCount", lock.getHoldCount(), 2);
    Checks.expect("LOCK.ACQUIRE", leash.call("LOCK.ACQUIRE", name), null);
    Map<Object, Object> info = info(leash, "LOCK.INFO", name);
    Checks.expect("state", info.get("state"), "held");
    Checks.expect("holds", info.get("holds"), 2L);
    Checks.expect("owner ends with the thread", info.get("owner").toString().endsWith(":" + Thread.currentThread().getId()), true);
    Checks.expectBetween("ttl-ms", (Long) info.get("ttl-ms"), 1, 30_000);
    lock.unlock();
    Checks.expect("LOCK.ACQUIRE after one of two unlocks", leash.call("LOCK.ACQUIRE", name), null);
    lock.unlock();
    Checks.expect("LOCK.INFO of a free lock", leash.call("LOCK.INFO", name), null);
    Object token = leash.call("LOCK.ACQUIRE", name);
    Checks.expect("a token", token instanceof Long n && n > 0, true);
    Checks.expect("tryLock", lock.tryLock(), false);
    return "";
  }

  /** The map that a command answers about a name. */
  static Map<Object, Object> info(Leash leash, String command, String name) {
    Map<Object, Object> info = new HashMap<>();
    List<?> reply = (List<?>) leash.call(command, name);
    for (int i = 0; i < reply.size(); i += 2) {
      info.put(reply.get(i), reply.get(i + 1));
    }
    return info;
  }

  /** Names that are hashed or written differently from how they look. */
  private String names() {
    for (String each : List.of("{tag}:order", "order {42} 'new'", "Schlüssel:锁", "a:b:write", "leash")) {
      String name = sides.name("name") + each;
      RLock lock = lock(name);
      Leash leash = sides.leash();
      lock.lock();
      Checks.expect("LOCK.ACQUIRE of " + name, leash.call("LOCK.ACQUIRE", name), null);
      lock.unlock();
      leash.call("LOCK.ACQUIRE", name);
      Checks.expect("tryLock of " + name, lock.tryLock(), false);
      leash.call("LOCK.RELEASE", name);
    }
    return "";
  }

  private String reentryOfLeash() throws Exception {
    String name = sides.name("reentry");
    RLock lock = lock(name);
    Leash leash = sides.leash();
    Object token = leash.call("LOCK.ACQUIRE", name, "OWNER", "worker:7");
    Checks.expect("the same token", leash.call("LOCK.ACQUIRE", name, "OWNER", "worker:7"), token);
    Checks.expect("first release", leash.call("LOCK.RELEASE", name, "OWNER", "worker:7"), 0L);
    Checks.expect("tryLock after one of two releases", lock.tryLock(), false);
    Checks.expect("second release", sides.leash().call("LOCK.RELEASE", name, "OWNER", "worker:7"), 1L);
    Checks.expect("tryLock", lock.tryLock(), true);
    Checks.expectRefused("a release of what Java holds", "LOCKNOTHELD",
        () -> leash.call("LOCK.RELEASE", name, "OWNER", "worker:7"));
    lock.unlock();
    return "";
  }

  private String timeouts() throws Exception {
    String name = sides.name("timeouts");
    RLock lock = lock(name);
    Leash leash = sides.leash();
    leash.call("LOCK.ACQUIRE", name);
    long began = System.nanoTime();
    Checks.expect("tryLock(300 ms)", lock.tryLock(300, TimeUnit.MILLISECONDS), false);
    Checks.expectBetween("ms of tryLock(300 ms)", millisSince(began), 290, 5000);
    leash.call("LOCK.RELEASE", name);
    Checks.expect("tryLock(5 s, 2 s)", lock.tryLock(5, 2, TimeUnit.SECONDS), true);
    began = System.nanoTime();
    Checks.expect("BLOCK 300", leash.call("LOCK.ACQUIRE", name, "BLOCK", 300), null);
    Checks.expectBetween("ms of BLOCK 300", millisSince(began), 290, 5000);
    lock.unlock();
    return "";
  }

  static double millisSince(long began) {
    return (System.nanoTime() - began) / 1e6;
  }

  /** What nobody releases ends by itself, and the next one has it then. */
  private String leasesEnd() throws Exception {
    String name = sides.name("leases");
    RLock lock = lock(name);
    Leash leash = sides.leash();
    long began = System.nanoTime();
    lock.lock(400, TimeUnit.MILLISECONDS);
    leash.call("LOCK.ACQUIRE", name, "BLOCK", 0, "LEASE", 400);
    double toLeash = millisSince(began);
    Checks.expectBetween("ms until Leash had it", toLeash, 390, 5000);
    Checks.expectThrows("unlock when the lease is over", IllegalMonitorStateException.class, () -> {
      lock.unlock();
      return "nothing";
    });
    began = System.nanoTime();
    lock.lock();
    double toJava = millisSince(began);
    Checks.expectAtMost("ms until Java had it", toJava, 5000);
    Checks.expectRefused("LOCK.RELEASE when the lease is over", "LOCKNOTHELD", () -> leash.call("LOCK.RELEASE", name));
    lock.unlock();
    return String.format("400 ms of Java's are over after %.0f ms, 400 of Leash's after %.0f", toLeash, toJava);
  }

  /** The holder is told, and whoever waits has the lock. */
  private String forceUnlock() throws Exception {
    String name = sides.name("force");
    RLock lock = lock(name);
    Leash holder = sides.leash();
    holder.call("LOCK.ACQUIRE", name, "TTL", 1500);
    Member waiter = sides.member(Member.OfLeash.of(sides.leash(), name));
    Future<Long> granted = waiter.beginLock();
    Thread.sleep(50); // so that it is waiting
    long began = System.nanoTime();
    Checks.expect("forceUnlock", lock.forceUnlock(), true);
    Member.await(granted);
    double woken = millisSince(began);
    holder.awaitClose();
    double told = millisSince(began);
    Checks.expectAtMost("ms until the waiter had it", woken, 5000);
    Checks.expectAtMost("ms until the holder was told", told, 5000);
    waiter.unlockNow();
    Checks.expect("forceUnlock of a free lock", lock.forceUnlock(), false);
    return String.format("the waiter had it after %.1f ms, the holder knew after %.0f", woken, told);
  }

  private String disconnect() throws Exception {
    String name = sides.name("disconnect");
    Leash holder = sides.leash();
    holder.call("LOCK.ACQUIRE", name);
    Member waiter = sides.member(Member.OfRedisson.of(sides.redisson(), lock(name)));
    Future<Long> granted = waiter.beginLock();
    Thread.sleep(50); // so that it is waiting
    long closed = System.nanoTime();
    holder.close();
    double millis = (Member.await(granted) - closed) / 1e6;
    Checks.expectAtMost("ms until Java had it", millis, 5000);
    waiter.unlockNow();
    return String.format("Java had the lock after %.1f ms", millis);
  }

  /** Both renew for longer than the time to live; what a Java program leaves behind when it ends runs out. */
  private String watchdogs() throws Exception {
    String name = sides.name("watchdogs");
    Leash leash = sides.leash();
    RedissonClient other = sides.connect(600);
    try {
      leash.call("LOCK.ACQUIRE", name, "TTL", 600);
      Checks.expect("tryLock for longer than Leash's time to live",
          other.getLock(name).tryLock(900, TimeUnit.MILLISECONDS), false);
      leash.call("LOCK.RELEASE", name);
      other.getLock(name).lock();
      Checks.expect("BLOCK for longer than Java's time to live", leash.call("LOCK.ACQUIRE", name, "BLOCK", 900), null);
    } finally {
      other.shutdown(0, 1, TimeUnit.SECONDS);
    }
    long began = System.nanoTime();
    leash.call("LOCK.ACQUIRE", name, "BLOCK", 0);
    double millis = millisSince(began);
    Checks.expectAtMost("ms until Leash had it", millis, 5000);
    return String.format("Leash had the lock %.0f ms after Java ended, whose locks live for 600", millis);
  }

  /** All of Java's locks are renewed, in whatever slots they lie. */
  private String manyWatchdogs() throws Exception {
    List<String> names = IntStream.range(0, 10).mapToObj(i -> sides.name("many")).toList();
    Leash leash = sides.leash();
    RedissonClient other = sides.connect(600);
    try {
      names.forEach(name -> other.getLock(name).lock());
      Thread.sleep(900); // for longer than they live
      for (String name : names) {
        Checks.expect("LOCK.ACQUIRE of " + name, leash.call("LOCK.ACQUIRE", name), null);
        other.getLock(name).unlock();
      }
    } finally {
      other.shutdown(0, 1, TimeUnit.SECONDS);
    }
    return "";
  }

  /** Other locks of Redisson's that keep the same record. */
  private String spinAndMulti() throws Exception {
    String name = sides.name("{spin}");
    String second = sides.name("{spin}");
    Leash leash = sides.leash();
    RLock spin = sides.redisson().getSpinLock(name);
    spin.lock();
    Checks.expect("LOCK.ACQUIRE of a spin lock", leash.call("LOCK.ACQUIRE", name), null);
    spin.unlock();
    Checks.expect("LOCK.ACQUIRE, nobody published", leash.call("LOCK.ACQUIRE", name, "BLOCK", 5000) != null, true);
    Checks.expect("tryLock of a spin lock", spin.tryLock(), false);

    RLock both = sides.redisson().getMultiLock(lock(second), lock(name));
    Checks.expect("tryLock of two, one is held", both.tryLock(), false);
    Checks.expect("nothing of it is left", lock(second).isLocked(), false);
    leash.call("LOCK.RELEASE", name);
    Checks.expect("tryLock of two", both.tryLock(), true);
    Checks.expect("LOCK.ACQUIRE of the one", leash.call("LOCK.ACQUIRE", name), null);
    Checks.expect("LOCK.ACQUIRE of the other", leash.call("LOCK.ACQUIRE", second), null);
    both.unlock();
    return "";
  }
}
