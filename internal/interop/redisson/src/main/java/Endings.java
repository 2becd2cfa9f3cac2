import java.util.List;
import java.util.concurrent.Future;
import org.redisson.api.RLock;

/** Holds that end, move or come together otherwise than by LOCK.RELEASE: what Java sees of it. */
final class Endings {
  private final Sides sides;

  Endings(Sides sides) {
    this.sides = sides;
  }

  void addTo(Steps steps) {
    steps.add("lock: LOCK.BREAK", this::broken);
    steps.add("lock: MAXHOLD", this::maxHold);
    steps.add("lock: LOCK.ATTACH", this::attached);
    steps.add("lock: LOCK.MACQUIRE and MultiLock", this::several);
  }

  private RLock lock(String name) {
    return sides.redisson().getLock(name);
  }

  private Member waiter(String name) {
    return sides.member(Member.OfRedisson.of(sides.redisson(), lock(name)));
  }

  /** Java's own holds can be broken too, but nobody tells Java. */
  private String broken() throws Exception {
    String name = sides.name("break");
    Leash holder = sides.leash();
    Leash breaker = sides.leash();
    Checks.expect("LOCK.BREAK of a free lock", breaker.call("LOCK.BREAK", name), 0L);
    holder.call("LOCK.ACQUIRE", name);
    Member next = waiter(name);
    Future<Long> granted = next.beginLock();
    Thread.sleep(50); // so that it is waiting
    long began = System.nanoTime();
    Checks.expect("LOCK.BREAK of Leash's", breaker.call("LOCK.BREAK", name), 1L);
    double millis = (Member.await(granted) - began) / 1e6;
    holder.awaitClose();
    Checks.expectAtMost("ms until Java had it", millis, 5000);
    Checks.expect("LOCK.BREAK of Java's", breaker.call("LOCK.BREAK", name), 2L);
    Checks.expectThrows("unlock of what is broken", IllegalMonitorStateException.class, () -> {
      try {
        next.unlockNow();
      } catch (java.util.concurrent.ExecutionException e) {
        throw (Exception) e.getCause();
      }
      return "nothing";
    });
    Checks.expect("tryLock", lock(name).tryLock(), true);
    return String.format("Java had the lock after %.1f ms", millis);
  }

  private String maxHold() throws Exception {
    String name = sides.name("max-hold");
    Leash holder = sides.leash();
    long began = System.nanoTime();
    holder.call("LOCK.ACQUIRE", name, "MAXHOLD", 400);
    Member next = waiter(name);
    double millis = (Member.await(next.beginLock()) - began) / 1e6;
    Checks.expectBetween("ms until Java had it", millis, 390, 5000);
    holder.awaitClose();
    next.unlockNow();
    return String.format("400 ms are over for Java after %.0f", millis);
  }

  /** The old connection's end frees nothing, the new one's does. */
  private String attached() throws Exception {
    String name = sides.name("attach");
    Leash first = sides.leash();
    Leash second = sides.leash();
    Object token = first.call("LOCK.ACQUIRE", name, "OWNER", "worker:8");
    Checks.expect("LOCK.ATTACH", second.call("LOCK.ATTACH", name, "OWNER", "worker:8", "TOKEN", token), token);
    first.awaitClose();
    first.close();
    Checks.expect("tryLock", lock(name).tryLock(), false);
    second.close();
    Member next = waiter(name);
    next.lockNow();
    next.unlockNow();
    return "";
  }

  private String several() {
    String name = sides.name("{several}");
    String other = sides.name("several");
    RLock both = sides.redisson().getMultiLock(lock(name), lock(other));
    Leash leash = sides.leash();
    lock(other).lock();
    Checks.expect("LOCK.MACQUIRE, Java has one", leash.call("LOCK.MACQUIRE", 2, name, other), null);
    Checks.expect("nothing of it is left", lock(name).isLocked(), false);
    lock(other).unlock();
    List<?> tokens = (List<?>) leash.call("LOCK.MACQUIRE", 2, name, other);
    Checks.expect("tokens of " + tokens, tokens.stream().allMatch(Long.class::isInstance), true);
    Checks.expect("tryLock of both", both.tryLock(), false);
    Checks.expect("LOCK.MRELEASE", leash.call("LOCK.MRELEASE", 2, name, other), 2L);
    Checks.expect("tryLock of both when they are free", both.tryLock(), true);
    Checks.expect("LOCK.MACQUIRE, Java has both", leash.call("LOCK.MACQUIRE", 2, name, other), null);
    both.unlock();
    return "";
  }
}
