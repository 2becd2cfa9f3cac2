import java.util.concurrent.TimeUnit;
import org.redisson.api.RFencedLock;

/** RFencedLock, which Redisson has since 3.19, and the tokens of LOCK.ACQUIRE: one counter, with --token-ttl 0. */
final class FencedLocks {
  private static final int ROUNDS = 5;

  private final Sides sides;

  FencedLocks(Sides sides) {
    this.sides = sides;
  }

  void addTo(Steps steps) {
    steps.add("fenced: tokens rise over both", this::tokensRise);
    steps.add("fenced: Java is first", this::javaIsFirst);
  }

  private String tokensRise() {
    String name = sides.name("fenced");
    RFencedLock lock = sides.redisson().getFencedLock(name);
    Leash leash = sides.leash();
    long last = 0;
    for (int i = 0; i < ROUNDS; i++) {
      last = next(last, (Long) leash.call("LOCK.ACQUIRE", name));
      Checks.expect("getToken", lock.getToken(), last);
      Checks.expect("tryLock of a held lock", lock.tryLock(), false);
      leash.call("LOCK.RELEASE", name);
      last = next(last, lock.lockAndGetToken());
      last = next(last, lock.lockAndGetToken()); // Redisson gives a new one for each of a thread's
      lock.unlock();
      lock.unlock();
    }
    leash.call("LOCK.ACQUIRE", name);
    Checks.expect("tryLockAndGetToken of a held lock", lock.tryLockAndGetToken(1, TimeUnit.SECONDS), null);
    return "";
  }

  private static long next(long last, Long token) {
    Checks.expect("a token after " + last + " is larger: " + token, token > last, true);
    return token;
  }

  /** The counter that Java began has no time to live, nor has it one after Leash used it. */
  private String javaIsFirst() {
    String name = sides.name("fenced");
    RFencedLock lock = sides.redisson().getFencedLock(name);
    Leash leash = sides.leash();
    Checks.expect("the first token", lock.lockAndGetToken(), 1L);
    lock.unlock();
    long last = 1;
    last = next(last, (Long) leash.call("LOCK.ACQUIRE", name));
    leash.call("LOCK.RELEASE", name);
    last = next(last, lock.tryLockAndGetToken(1, 1, TimeUnit.SECONDS));
    lock.unlock();
    Checks.expect("the counter's PTTL", leash.call("PTTL", "redisson_lock_token:{" + name + "}"), -1L);
    return "";
  }
}
