import java.util.ArrayList;
import java.util.List;

/**
 * Lets threads of a Java program with Redisson and connections to Leash meet at the same locks: Interop host port
 * standalone|cluster redis,... The host and port are Leash's, the others are what lies behind it. Redisson connects
 * to Redis itself, then through Leash as standalone; or through Leash as cluster.
 */
public final class Interop {
  private Interop() {}

  private static List<Sides> sides(String host, int port, boolean throughCluster, String... redis) {
    List<Sides> all = new ArrayList<>();
    String leash = host + ":" + port;
    if (throughCluster) {
      all.add(new Sides(host, port, "through Leash as cluster", true, leash));
      return all;
    }
    all.add(new Sides(host, port, "direct", redis.length > 1, redis));
    all.add(new Sides(host, port, "through Leash", false, leash));
    return all;
  }

  private static Steps steps(Sides sides) {
    Steps steps = new Steps(sides.route());
    new Locks(sides).addTo(steps);
    new Endings(sides).addTo(steps);
    new ReadWriteLocks(sides).addTo(steps);
    new FairLocks(sides).addTo(steps);
    new Semaphores(sides, hasFencedLocks()).addTo(steps);
    new Latches(sides).addTo(steps);
    if (hasFencedLocks()) {
      new FencedLocks(sides).addTo(steps);
    }
    return steps;
  }

  private static boolean hasFencedLocks() {
    try {
      Class.forName("org.redisson.api.RFencedLock");
      return true;
    } catch (ClassNotFoundException e) {
      return false;
    }
  }

  public static void main(String[] args) throws Exception {
    boolean passed = true;
    for (Sides sides : sides(args[0], Integer.parseInt(args[1]), args[2].equals("cluster"), args[3].split(","))) {
      try (sides) {
        passed &= steps(sides).run();
      }
    }
    System.exit(passed ? 0 : 1);
  }
}
