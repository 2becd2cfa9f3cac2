import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RFencedLock;

/** RFencedLock, which Redisson has since 3.19, and the tokens of LOCK.ACQUIRE: one counter, with --token-ttl 0. */
final class FencedLocks {
  private static final int ROUNDS = 5;
  private static final int GRANTS = 30; // of each member of a contest

  private final Sides sides;

  FencedLocks(Sides sides) {
    this.sides = sides;
  }

  void addTo(Steps steps) {
    steps.add("fenced: tokens rise over both", this::tokensRise);
    steps.add("fenced: Java is first", this::javaIsFirst);
    steps.add("fenced: tokens rise when all contend", this::contended);
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

  /** Whoever has the lock notes its token; so the notes are in the order of the grants. */
  private String contended() throws Exception {
    String name = sides.name("fenced");
    RFencedLock lock = sides.redisson().getFencedLock(name);
    List<Long> tokens = new CopyOnWriteArrayList<>();
    List<Future<?>> all = new ArrayList<>();
    for (int i = 0; i < 3; i++) {
      all.add(sides.member(Member.OfRedisson.of(sides.redisson(), lock)).begin(() -> {
        for (int j = 0; j < GRANTS; j++) {
          tokens.add(lock.lockAndGetToken());
          lock.unlock();
        }
        return null;
      }));
      Leash leash = sides.leash();
      all.add(sides.member(Member.OfLeash.of(leash, name)).begin(() -> {
        for (int j = 0; j < GRANTS; j++) {
          tokens.add((Long) leash.call("LOCK.ACQUIRE", name, "BLOCK", 0));
          leash.call("LOCK.RELEASE", name);
        }
        return null;
      }));
    }
    for (Future<?> each : all) {
      Member.await(each);
    }
    long last = 0;
    for (Long token : tokens) {
      last = next(last, token);
    }
    Checks.expect("grants", tokens.size(), 6 * GRANTS);
    return tokens.size() + " grants";
  }
}
