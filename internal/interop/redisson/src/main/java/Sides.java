import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;
import org.redisson.config.ReadMode;

/** The two sides that meet: Redisson, connected by some route, and connections to Leash. */
final class Sides implements AutoCloseable {
  static final int BRIEF = 2000;
  static final boolean SECURE = System.getenv("INTEROP_TLS") != null;
  private static final String SCHEME = SECURE ? "rediss://" : "redis://";

  private final String host;
  private final int port;
  private final String route;
  private final boolean cluster;
  private final String[] addresses;
  private final Queue<AutoCloseable> opened = new ConcurrentLinkedQueue<>();
  private final RedissonClient redisson;
  private RedissonClient brief;
  private final AtomicInteger names = new AtomicInteger();

  /** Redisson connects to the addresses: those of Redis, or that of the Leash at host and port. */
  Sides(String host, int port, String route, boolean cluster, String... addresses) {
    this.host = host;
    this.port = port;
    this.route = route;
    this.cluster = cluster;
    this.addresses = addresses;
    redisson = connect(30_000);
  }

  /** Another client of Redisson's, whose watchdog has that time-out. */
  RedissonClient connect(long watchdogMillis) {
    Config config = new Config();
    config.setCodec(StringCodec.INSTANCE).setLockWatchdogTimeout(watchdogMillis).setThreads(4).setNettyThreads(2);
    if (addresses[0].equals(host + ":" + port) && !cluster) {
      renewOneByOne(config);
    }
    if (!cluster) {
      config.useSingleServer().setAddress(SCHEME + addresses[0])
          .setConnectionMinimumIdleSize(2).setConnectionPoolSize(16);
      return Redisson.create(config);
    }
    // What replicas answer may be old: not what a counter is read from.
    var servers = config.useClusterServers().setReadMode(ReadMode.MASTER)
        .setMasterConnectionMinimumIdleSize(2).setMasterConnectionPoolSize(16);
    // Redis's own certificates have names, and Redisson connects to the addresses of the nodes.
    servers.setSslEnableEndpointIdentification(addresses[0].equals(host + ":" + port));
    for (String address : addresses) {
      servers.addNodeAddress(SCHEME + address);
    }
    return Redisson.create(config);
  }

  /**
   * As a client of a single server, Redisson since 3.44 renews its locks in one script, though it has noticed that there
   * is a cluster, which refuses that. As a client of a cluster it does it slot by slot.
   */
  private static void renewOneByOne(Config config) {
    try {
      config.setLockWatchdogBatchSize(1);
    } catch (NoSuchMethodError e) {
      // It is older, and renews each lock by itself.
    }
  }

  RedissonClient redisson() {
    return redisson;
  }

  /** A client whose locks live for BRIEF milliseconds. */
  synchronized RedissonClient brief() {
    if (brief == null) {
      brief = connect(BRIEF);
    }
    return brief;
  }

  /** A new connection to Leash, which close closes. */
  Leash leash() {
    Leash leash = new Leash(host, port);
    opened.add(leash);
    return leash;
  }

  /** A member for a contest, whom close sends home. */
  <M extends Member> M member(M member) {
    opened.add(member);
    return member;
  }

  /** A name that nobody has used. */
  String name(String what) {
    return route.replace(' ', '-') + ":" + what + ":" + names.incrementAndGet();
  }

  String route() {
    return route;
  }

  @Override public void close() throws Exception {
    for (AutoCloseable each : opened) {
      each.close();
    }
    redisson.shutdown();
    if (brief != null) {
      brief.shutdown();
    }
  }
}
