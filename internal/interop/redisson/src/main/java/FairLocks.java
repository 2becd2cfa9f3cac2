import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.redisson.api.RLock;
import org.redisson.api.RScoredSortedSet;
import org.redisson.client.codec.StringCodec;

/** RFairLock and LOCK.ACQUIRE with FAIR: one queue. */
final class FairLocks {
  private static final long WAITER_LIVES_MILLIS = 300_000; // in Redisson's queue, where nobody says otherwise

  private final Sides sides;

  FairLocks(Sides sides) {
    this.sides = sides;
  }

  void addTo(Steps steps) {
    steps.add("fair: first come, first served", this::order);
    steps.add("fair: whoever gives up leaves the queue", this::givingUp);
    steps.add("fair: a connection in the queue closes", this::disconnect);
    steps.add("fair: leases end", this::leasesEnd);
    steps.add("fair: forceUnlock", this::forceUnlock);
    steps.addAlone("fair: wake-ups", () -> contest().wakeUps());
    steps.addAlone("fair: counter", () -> contest().exactCounter());
  }

  private Contest contest() {
    String name = sides.name("fair-contest");
    return Contest.forLock(sides, name, lock(name), "FAIR").shorter();
  }

  private RLock lock(String name) {
    return sides.redisson().getFairLock(name);
  }

  private static String queue(String name) {
    return "redisson_lock_queue:{" + name + "}";
  }

  private RScoredSortedSet<String> timeouts(String name) {
    return sides.redisson().getScoredSortedSet("redisson_lock_timeout:{" + name + "}", StringCodec.INSTANCE);
  }

  private Member javaMember(String name) {
    return sides.member(Member.OfRedisson.of(sides.redisson(), lock(name)));
  }

  private Member leashMember(String name, Object... more) {
    List<Object> options = new ArrayList<>(List.of("FAIR"));
    options.addAll(List.of(more));
    return sides.member(Member.OfLeash.of(sides.leash(), name, options.toArray()));
  }

  /** Waits until that many stand in the queue. */
  private void awaitQueue(Leash leash, String name, long length) {
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(10);
    for (Object got; !(got = leash.call("LLEN", queue(name))).equals(length); LockSupport.parkNanos(1_000_000)) {
      Checks.expect("in time: queue of " + length + ", got " + got, System.nanoTime() < end, true);
    }
  }

  /** Both sides in turn come to a held lock, and get it as they came; each comes twice. */
  private String order() throws Exception {
    String name = sides.name("fair-order");
    Leash leash = sides.leash();
    Object token = leash.call("LOCK.ACQUIRE", name, "FAIR");
    List<Integer> served = new CopyOnWriteArrayList<>();
    List<Integer> came = new ArrayList<>();
    List<Future<?>> all = new ArrayList<>();
    for (int i = 0; i < 8; i++) {
      int number = i;
      Member member = i % 2 == 0 ? javaMember(name) : leashMember(name);
      all.add(member.begin(() -> {
        member.lock();
        served.add(number);
        Thread.sleep(5);
        member.unlock();
        return null;
      }));
      came.add(i);
      awaitQueue(leash, name, i + 1);
    }
    expectScores(name, 8);
    Checks.expect("tryLock past the queue", lock(name).tryLock(), false);
    leash.call("LOCK.RELEASE", name, "TOKEN", token);
    for (Future<?> each : all) {
      Member.await(each);
    }
    Checks.expect("order", served, came);
    expectNothingLeft(leash, name);
    return "";
  }

  /** No waiter is presumed to live for longer than Redisson has it. */
  private void expectScores(String name, int waiters) {
    for (var entry : timeouts(name).entryRange(0, -1)) {
      double ahead = entry.getScore() - System.currentTimeMillis();
      Checks.expectBetween("score ahead of now", ahead, 1, (waiters + 1) * WAITER_LIVES_MILLIS + 60_000);
    }
  }

  private void expectNothingLeft(Leash leash, String name) {
    Checks.expect("queue", leash.call("LLEN", queue(name)), 0L);
    Checks.expect("time-outs", timeouts(name).size(), 0);
    Checks.expect("lock", leash.call("EXISTS", name), 0L);
  }

  /** Java gives up before a Leash waiter, and a Leash waiter before Java. */
  private String givingUp() throws Exception {
    String name = sides.name("fair-give-up");
    Leash holder = sides.leash();
    Object token = holder.call("LOCK.ACQUIRE", name, "FAIR");
    Checks.expect("tryLock(300 ms)", lock(name).tryLock(300, TimeUnit.MILLISECONDS), false);
    Checks.expect("BLOCK 300", sides.leash().call("LOCK.ACQUIRE", name, "FAIR", "BLOCK", 300), null);
    awaitQueue(holder, name, 0);

    Member patient = javaMember(name);
    Leash hasty = sides.leash();
    Future<?> gaveUp = javaMember(name).begin(() -> hasty.call("LOCK.ACQUIRE", name, "FAIR", "BLOCK", 400));
    awaitQueue(holder, name, 1);
    Future<Long> granted = patient.beginLock();
    awaitQueue(holder, name, 2);
    Checks.expect("BLOCK 400", Member.await(gaveUp), null);
    long released = System.nanoTime();
    holder.call("LOCK.RELEASE", name, "TOKEN", token);
    double millis = (Member.await(granted) - released) / 1e6;
    Checks.expectAtMost("ms until Java had it", millis, 5000);
    patient.unlockNow();
    expectNothingLeft(holder, name);
    return String.format("Java, behind one that gave up, had it after %.1f ms", millis);
  }

  private String disconnect() throws Exception {
    String name = sides.name("fair-disconnect");
    Leash holder = sides.leash();
    Object token = holder.call("LOCK.ACQUIRE", name, "FAIR");
    Leash first = sides.leash();
    javaMember(name).begin(() -> first.call("LOCK.ACQUIRE", name, "FAIR", "BLOCK", 0));
    awaitQueue(holder, name, 1);
    Member java = javaMember(name);
    Future<Long> granted = java.beginLock();
    awaitQueue(holder, name, 2);
    first.close();
    awaitQueue(holder, name, 1);
    long released = System.nanoTime();
    holder.call("LOCK.RELEASE", name, "TOKEN", token);
    double millis = (Member.await(granted) - released) / 1e6;
    Checks.expectAtMost("ms until Java had it", millis, 5000);
    java.unlockNow();
    expectNothingLeft(holder, name);
    return String.format("Java, behind one that went, had it after %.1f ms", millis);
  }

  /** What nobody releases ends by itself, and the first in the queue has it then. */
  private String leasesEnd() throws Exception {
    String name = sides.name("fair-leases");
    RLock lock = lock(name);
    Leash leash = sides.leash();
    long began = System.nanoTime();
    lock.lock(400, TimeUnit.MILLISECONDS);
    leash.call("LOCK.ACQUIRE", name, "FAIR", "BLOCK", 0, "LEASE", 400);
    double toLeash = Locks.millisSince(began);
    Checks.expectBetween("ms until Leash had it", toLeash, 390, 5000);
    began = System.nanoTime();
    while (!lock.tryLock(600, TimeUnit.MILLISECONDS)) {
      // In lock() Redisson 3.16 waits for ever if it looks when a lease is over by its clock and not by Redis's.
      Checks.expectAtMost("ms until Java had it", Locks.millisSince(began), 5000);
    }
    double toJava = Locks.millisSince(began);
    Checks.expectAtMost("ms until Java had it", toJava, 5000);
    lock.unlock();
    expectNothingLeft(leash, name);
    return String.format("400 ms of Java's are over after %.0f ms, 400 of Leash's after %.0f", toLeash, toJava);
  }

  private String forceUnlock() throws Exception {
    String name = sides.name("fair-force");
    Leash holder = sides.leash();
    holder.call("LOCK.ACQUIRE", name, "FAIR", "TTL", 1500);
    Member waiter = leashMember(name);
    Future<Long> granted = waiter.beginLock();
    awaitQueue(sides.leash(), name, 1);
    long began = System.nanoTime();
    Checks.expect("forceUnlock", lock(name).forceUnlock(), true);
    double millis = (Member.await(granted) - began) / 1e6;
    Checks.expectAtMost("ms until the waiter had it", millis, 5000);
    holder.awaitClose();
    waiter.unlockNow();
    return String.format("the waiter had it after %.1f ms", millis);
  }
}
