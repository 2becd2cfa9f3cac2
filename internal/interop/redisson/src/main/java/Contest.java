import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Future;
import java.util.function.Supplier;
import org.redisson.api.RLock;

/** Java threads and Leash connections that want one thing that only one of them can have. */
final class Contest {
  private static final int ROUNDS = 20;
  private static final int CYCLES = 1000;
  private static final int MEMBERS = 3; // of each side

  // A wake-up that fails costs a waiter of Leash's about a second, one of Redisson's the time to live of 30.
  private static final double MEDIAN_MILLIS = 400;
  static final double WORST_MILLIS = 10_000;

  private final Sides sides;
  private final String counter;
  private final Supplier<Member> java;
  private final Supplier<Member> leash;
  private int rounds = ROUNDS;
  private int cycles = CYCLES;

  Contest(Sides sides, String name, Supplier<? extends Member> java, Supplier<? extends Member> leash) {
    this.sides = sides;
    counter = name + ":counter";
    this.java = () -> sides.member(java.get());
    this.leash = () -> sides.member(leash.get());
  }

  /** A contest for a lock. The options are those of LOCK.ACQUIRE. */
  static Contest forLock(Sides sides, String name, RLock lock, Object... options) {
    return new Contest(sides, name,
        () -> Member.OfRedisson.of(sides.redisson(), lock), () -> Member.OfLeash.of(sides.leash(), name, options));
  }

  /** For what is like another contest that goes on for longer. */
  Contest shorter() {
    rounds = ROUNDS / 2;
    cycles = CYCLES / 4;
    return this;
  }

  /** Each side waits for the other, in turn. Returns how long wake-ups took. */
  String wakeUps() throws Exception {
    Member ours = leash.get();
    Member theirs = java.get();
    List<Double> toJava = new ArrayList<>();
    List<Double> toLeash = new ArrayList<>();
    for (int i = 0; i < rounds; i++) {
      toJava.add(wakeUp(ours, theirs));
      toLeash.add(wakeUp(theirs, ours));
    }
    return figures("Leash wakes Java", toJava) + "; " + figures("Java wakes Leash", toLeash);
  }

  /** Returns how many milliseconds after the holder began to release the waiter had the lock. */
  private double wakeUp(Member holder, Member waiter) throws Exception {
    holder.lockNow();
    Future<Long> granted = waiter.beginLock();
    Thread.sleep(25); // so that it is waiting: when it is not yet, nothing is wrong
    Checks.expect("got a lock that is held", granted.isDone(), false);
    long released = System.nanoTime();
    holder.unlockNow();
    double millis = (Member.await(granted) - released) / 1e6;
    waiter.unlockNow();
    return millis;
  }

  static String figures(String what, List<Double> millis) {
    List<Double> sorted = millis.stream().sorted().toList();
    double median = sorted.get(sorted.size() / 2);
    double worst = sorted.get(sorted.size() - 1);
    Checks.expectAtMost(what + ": median ms", median, MEDIAN_MILLIS);
    Checks.expectAtMost(what + ": worst ms", worst, WORST_MILLIS);
    return String.format("%s in %.1f ms (median, worst %.1f)", what, median, worst);
  }

  /** All add to a number by reading and writing it. Returns how long that took, and who waited longest. */
  String exactCounter() throws Exception {
    List<Member> members = new ArrayList<>();
    for (int i = 0; i < MEMBERS; i++) {
      members.add(leash.get());
      members.add(java.get());
    }
    long began = System.nanoTime();
    List<Future<Double>> longest = new ArrayList<>();
    for (int i = 0; i < members.size(); i++) {
      Member member = members.get(i);
      int share = cycles / members.size() + (i < cycles % members.size() ? 1 : 0);
      longest.add(member.begin(() -> count(member, share)));
    }
    double worst = 0;
    for (Future<Double> each : longest) {
      worst = Math.max(worst, Member.await(each));
    }
    double seconds = (System.nanoTime() - began) / 1e9;
    Checks.expect("counter", sides.leash().call("GET", counter), "" + cycles);
    Checks.expectAtMost("longest wait, ms", worst, WORST_MILLIS);
    return String.format("%d cycles in %.1f s, longest wait %.0f ms", cycles, seconds, worst);
  }

  /** Returns the longest wait in milliseconds. */
  private double count(Member member, int share) throws Exception {
    double longest = 0;
    for (int i = 0; i < share; i++) {
      long asked = System.nanoTime();
      member.lock();
      longest = Math.max(longest, (System.nanoTime() - asked) / 1e6);
      member.increment(counter);
      member.unlock();
    }
    return longest;
  }
}
