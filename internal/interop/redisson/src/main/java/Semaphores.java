import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;

/** RPermitExpirableSemaphore and SEM.ACQUIRE; RSemaphore and SEM.TAKE. */
final class Semaphores {
  private final Sides sides;
  private final boolean sameIds;

  /** sameIds says that Redisson writes permit ids as Leash does: in 16 bytes, since 3.17. */
  Semaphores(Sides sides, boolean sameIds) {
    this.sides = sides;
    this.sameIds = sameIds;
  }

  void addTo(Steps steps) {
    steps.add("semaphore: permits of both", this::permits);
    steps.add("semaphore: totals", this::totals);
    if (sameIds) {
      steps.add("semaphore: a permit goes from side to side", this::passedOn);
    }
    steps.add("semaphore: leases end", this::leasesEnd);
    steps.add("semaphore: a connection closes", this::disconnect);
    steps.add("semaphore: never more than there are", this::neverMore);
    steps.addAlone("semaphore: wake-ups", () -> contest().wakeUps());
    steps.addAlone("semaphore: counter", () -> contest().exactCounter());
    steps.add("plain semaphore: permits of both", this::plainPermits);
    steps.addAlone("plain semaphore: wake-ups", () -> plainContest().wakeUps());
    steps.addAlone("plain semaphore: counter", () -> plainContest().exactCounter());
  }

  private RPermitExpirableSemaphore semaphore(String name) {
    return sides.redisson().getPermitExpirableSemaphore(name);
  }

  private Contest contest() {
    String name = sides.name("sem-contest");
    Checks.expect("trySetPermits", semaphore(name).trySetPermits(1), true);
    return new Contest(sides, name, () -> javaMember(name), () -> leashMember(name)).shorter();
  }

  private Member javaMember(String name) {
    RPermitExpirableSemaphore semaphore = semaphore(name);
    return new Member.OfRedisson(sides.redisson()) {
      private String id;

      @Override void lock() throws Exception {
        id = semaphore.acquire();
      }

      @Override void unlock() {
        semaphore.release(id);
      }
    };
  }

  private Member leashMember(String name) {
    return new Member.OfLeash(sides.leash()) {
      private Object id;

      @Override void lock() {
        id = leash.call("SEM.ACQUIRE", name, "BLOCK", 0);
      }

      @Override void unlock() {
        Checks.expect("SEM.RELEASE", leash.call("SEM.RELEASE", name, id), 1L);
      }
    };
  }

  private String permits() throws Exception {
    String name = sides.name("sem");
    RPermitExpirableSemaphore semaphore = semaphore(name);
    Leash leash = sides.leash();
    Checks.expect("SEM.INIT", leash.call("SEM.INIT", name, 3), 1L);
    Checks.expect("trySetPermits of what there is", semaphore.trySetPermits(9), false);
    Checks.expect("SEM.INIT of what there is", leash.call("SEM.INIT", name, 9), 0L);
    String id = semaphore.acquire();
    Checks.expect("length of a permit's id", id.length(), 32);
    List<?> two = (List<?>) leash.call("SEM.ACQUIRE", name, "COUNT", 2);
    Checks.expect("COUNT 2", two.size(), 2);
    Checks.expect("length of a permit's id", two.get(0).toString().length(), 32);
    Checks.expect("availablePermits", semaphore.availablePermits(), 0);
    Checks.expect("tryAcquire", semaphore.tryAcquire(), null);
    Checks.expect("SEM.ACQUIRE", leash.call("SEM.ACQUIRE", name), null);
    semaphore.release(id);
    Checks.expect("SEM.INFO", Locks.info(leash, "SEM.INFO", name).get("available"), 1L);
    Checks.expect("SEM.RELEASE", leash.call("SEM.RELEASE", name, two.get(0), two.get(1)), 2L);
    Checks.expect("availablePermits", semaphore.availablePermits(), 3);
    return "";
  }

  private String totals() throws Exception {
    String name = sides.name("sem-total");
    RPermitExpirableSemaphore semaphore = semaphore(name);
    Leash leash = sides.leash();
    Checks.expect("trySetPermits", semaphore.trySetPermits(2), true);
    String id = semaphore.acquire();
    Object other = leash.call("SEM.ACQUIRE", name);
    Checks.expect("SEM.RESIZE", leash.call("SEM.RESIZE", name, 5), 3L);
    Checks.expect("availablePermits", semaphore.availablePermits(), 3);
    Checks.expect("SEM.RESIZE below what is held", leash.call("SEM.RESIZE", name, 1), -1L);
    semaphore.release(id);
    Checks.expect("tryAcquire, one is held and there is one", semaphore.tryAcquire(), null);
    Checks.expect("SEM.RELEASE", leash.call("SEM.RELEASE", name, other), 1L);
    Checks.expect("tryAcquire", semaphore.tryAcquire() != null, true);
    return "";
  }

  private String passedOn() throws Exception {
    String name = sides.name("sem-pass");
    RPermitExpirableSemaphore semaphore = semaphore(name);
    Leash leash = sides.leash();
    leash.call("SEM.INIT", name, 2);
    String ours = (String) leash.call("SEM.ACQUIRE", name);
    String theirs = semaphore.acquire();
    Checks.expect("tryRelease of Leash's", semaphore.tryRelease(ours), true);
    Checks.expect("SEM.RELEASE of Java's", leash.call("SEM.RELEASE", name, theirs), 1L);
    Checks.expect("tryRelease of what is given back", semaphore.tryRelease(theirs), false);
    Checks.expect("availablePermits", semaphore.availablePermits(), 2);
    return "";
  }

  private String leasesEnd() throws Exception {
    String name = sides.name("sem-leases");
    RPermitExpirableSemaphore semaphore = semaphore(name);
    Leash leash = sides.leash();
    leash.call("SEM.INIT", name, 1);
    long began = System.nanoTime();
    semaphore.acquire(400, TimeUnit.MILLISECONDS);
    leash.call("SEM.ACQUIRE", name, "BLOCK", 0, "LEASE", 400);
    double toLeash = Locks.millisSince(began);
    Checks.expectBetween("ms until Leash had it", toLeash, 390, 5000);
    began = System.nanoTime();
    semaphore.release(semaphore.acquire());
    double toJava = Locks.millisSince(began);
    Checks.expectAtMost("ms until Java had it", toJava, 5000);
    return String.format("400 ms of Java's are over after %.0f ms, 400 of Leash's after %.0f", toLeash, toJava);
  }

  private String disconnect() throws Exception {
    String name = sides.name("sem-disconnect");
    Leash leash = sides.leash();
    leash.call("SEM.INIT", name, 1);
    leash.call("SEM.ACQUIRE", name);
    Member java = sides.member(javaMember(name));
    Future<Long> granted = java.beginLock();
    Thread.sleep(50); // so that it is waiting
    long closed = System.nanoTime();
    leash.close();
    double millis = (Member.await(granted) - closed) / 1e6;
    Checks.expectAtMost("ms until Java had it", millis, 5000);
    java.unlockNow();
    return String.format("Java had the permit after %.1f ms", millis);
  }

  /** Six want one of three, again and again. */
  private String neverMore() throws Exception {
    String name = sides.name("sem-most");
    semaphore(name).trySetPermits(3);
    AtomicInteger now = new AtomicInteger();
    AtomicInteger most = new AtomicInteger();
    List<Future<?>> all = new ArrayList<>();
    for (int i = 0; i < 6; i++) {
      Member member = sides.member(i % 2 == 0 ? javaMember(name) : leashMember(name));
      all.add(member.begin(() -> {
        for (int j = 0; j < 20; j++) {
          member.lock();
          most.accumulateAndGet(now.incrementAndGet(), Math::max);
          Thread.sleep(1);
          now.decrementAndGet();
          member.unlock();
        }
        return null;
      }));
    }
    for (Future<?> each : all) {
      Member.await(each);
    }
    Checks.expectBetween("most at a time", most.get(), 2, 3);
    Checks.expect("availablePermits afterwards", semaphore(name).availablePermits(), 3);
    return "at most " + most + " of 3 at a time";
  }

  private Contest plainContest() {
    String name = sides.name("plain-contest");
    RSemaphore semaphore = sides.redisson().getSemaphore(name);
    Checks.expect("trySetPermits", semaphore.trySetPermits(1), true);
    return new Contest(sides, name, () -> new Member.OfRedisson(sides.redisson()) {
      @Override void lock() throws Exception {
        semaphore.acquire();
      }

      @Override void unlock() {
        semaphore.release();
      }
    }, () -> new Member.OfLeash(sides.leash()) {
      @Override void lock() {
        Checks.expect("SEM.TAKE", leash.call("SEM.TAKE", name, "BLOCK", 0), 1L);
      }

      @Override void unlock() {
        leash.call("SEM.GIVE", name);
      }
    }).shorter();
  }

  private String plainPermits() throws Exception {
    String name = sides.name("plain");
    RSemaphore semaphore = sides.redisson().getSemaphore(name);
    Leash leash = sides.leash();
    Checks.expect("SEM.GIVE makes one", leash.call("SEM.GIVE", name, 3), 3L);
    Checks.expect("trySetPermits of what there is", semaphore.trySetPermits(9), false);
    semaphore.acquire(2);
    Checks.expect("SEM.TAKE of two", leash.call("SEM.TAKE", name, 2), 0L);
    Checks.expect("SEM.TAKE", leash.call("SEM.TAKE", name), 1L);
    Checks.expect("tryAcquire", semaphore.tryAcquire(), false);
    Member java = sides.member(new Member.OfRedisson(sides.redisson()) {
      @Override void lock() throws Exception {
        semaphore.acquire(2);
      }

      @Override void unlock() {
        semaphore.release(2);
      }
    });
    Future<Long> granted = java.beginLock();
    Checks.expect("SEM.GIVE", leash.call("SEM.GIVE", name), 1L);
    Checks.expect("SEM.GIVE of the second", leash.call("SEM.GIVE", name), 2L);
    Member.await(granted); // Redisson looks only when it is told
    java.unlockNow();
    Checks.expect("availablePermits", semaphore.availablePermits(), 2);
    return "";
  }
}
