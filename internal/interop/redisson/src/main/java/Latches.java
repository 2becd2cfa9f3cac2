import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RCountDownLatch;

/** RCountDownLatch and LATCH.*: waiters of either see what the other counts down. Redisson's look only when they are told. */
final class Latches {
  private static final int ROUNDS = 10;

  /**
   * How long the message of a new count may be on its way: through the bus of a cluster 40 ms were seen. In Redisson 3.16 a waiter
   * that gets it together with that of zero never wakes, with no Leash between, too.
   */
  private static final int MESSAGE_MS = 200;

  private final Sides sides;

  Latches(Sides sides) {
    this.sides = sides;
  }

  void addTo(Steps steps) {
    steps.add("latch: counts of both", this::counts);
    steps.add("latch: time-outs", this::timeouts);
    steps.addAlone("latch: all waiters wake", this::allWake);
  }

  private RCountDownLatch latch(String name) {
    return sides.redisson().getCountDownLatch(name);
  }

  private String counts() throws Exception {
    String name = sides.name("latch");
    RCountDownLatch latch = latch(name);
    Leash leash = sides.leash();
    Checks.expect("LATCH.GET of nothing", leash.call("LATCH.GET", name), 0L);
    Checks.expect("LATCH.SET", leash.call("LATCH.SET", name, 3), 1L);
    Checks.expect("trySetCount of what there is", latch.trySetCount(9), false);
    Checks.expect("LATCH.DOWN", leash.call("LATCH.DOWN", name), 2L);
    latch.countDown();
    Checks.expect("getCount", latch.getCount(), 1L);
    Checks.expect("LATCH.GET", leash.call("LATCH.GET", name), 1L);
    Checks.expect("LATCH.DOWN", leash.call("LATCH.DOWN", name), 0L);
    Checks.expect("LATCH.DOWN below zero", leash.call("LATCH.DOWN", name), 0L);
    Checks.expect("getCount", latch.getCount(), 0L);
    latch.await();
    Checks.expect("LATCH.AWAIT of nothing", leash.call("LATCH.AWAIT", name), 1L);
    Checks.expect("trySetCount anew", latch.trySetCount(2), true);
    Checks.expect("LATCH.SET of what there is", leash.call("LATCH.SET", name, 9), 0L);
    Checks.expect("delete", latch.delete(), true);
    Checks.expect("LATCH.GET of what is deleted", leash.call("LATCH.GET", name), 0L);
    return "";
  }

  private String timeouts() throws Exception {
    String name = sides.name("latch-timeout");
    Leash leash = sides.leash();
    leash.call("LATCH.SET", name, 1);
    Checks.expect("LATCH.AWAIT", leash.call("LATCH.AWAIT", name), 0L);
    long began = System.nanoTime();
    Checks.expect("LATCH.AWAIT BLOCK 300", leash.call("LATCH.AWAIT", name, "BLOCK", 300), 0L);
    Checks.expectBetween("ms of BLOCK 300", Locks.millisSince(began), 290, 5000);
    Checks.expect("await(300 ms)", latch(name).await(300, TimeUnit.MILLISECONDS), false);
    return "";
  }

  private String allWake() throws Exception {
    List<Double> byLeash = new ArrayList<>();
    List<Double> byJava = new ArrayList<>();
    Leash leash = sides.leash();
    List<Member> waiters = new ArrayList<>();
    String[] name = new String[1];
    for (int i = 0; i < 2; i++) {
      waiters.add(sides.member(new Member.OfLeash(sides.leash()) {
        @Override void lock() {
          Checks.expect("LATCH.AWAIT", leash.call("LATCH.AWAIT", name[0], "BLOCK", 0), 1L);
        }

        @Override void unlock() {}
      }));
      waiters.add(sides.member(new Member.OfRedisson(sides.redisson()) {
        @Override void lock() throws Exception {
          latch(name[0]).await();
        }

        @Override void unlock() {}
      }));
    }
    for (int i = 0; i < ROUNDS; i++) {
      name[0] = sides.name("latch-wake");
      latch(name[0]).trySetCount(1);
      Thread.sleep(MESSAGE_MS);
      byLeash.add(wake(waiters, () -> leash.call("LATCH.DOWN", name[0])));
      name[0] = sides.name("latch-wake");
      leash.call("LATCH.SET", name[0], 1);
      Thread.sleep(MESSAGE_MS);
      byJava.add(wake(waiters, () -> latch(name[0]).countDown()));
    }
    return Contest.figures("Leash wakes all", byLeash) + "; " + Contest.figures("Java wakes all", byJava);
  }

  /** Returns how many milliseconds after the count began to go to zero the last waiter knew. */
  private static double wake(List<Member> waiters, Runnable down) throws Exception {
    List<Future<Long>> woken = waiters.stream().map(Member::beginLock).toList();
    Thread.sleep(30); // so that they are waiting
    for (Future<Long> each : woken) {
      Checks.expect("woken before zero", each.isDone(), false);
    }
    long began = System.nanoTime();
    down.run();
    double last = 0;
    for (Future<Long> each : woken) {
      last = Math.max(last, (Member.await(each) - began) / 1e6);
    }
    return last;
  }
}
