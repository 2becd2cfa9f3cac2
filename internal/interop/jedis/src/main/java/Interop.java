import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import redis.clients.jedis.AbstractPipeline;
import redis.clients.jedis.AbstractTransaction;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisClientConfig;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.JedisShardedPubSub;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisClusterClient;
import redis.clients.jedis.Response;
import redis.clients.jedis.ScanIteration;
import redis.clients.jedis.StreamEntryID;
import redis.clients.jedis.UnifiedJedis;
import redis.clients.jedis.args.ClientType;
import redis.clients.jedis.commands.ProtocolCommand;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.exceptions.JedisNoScriptException;
import redis.clients.jedis.params.ClientKillParams;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.params.XReadGroupParams;
import redis.clients.jedis.resps.StreamEntry;
import redis.clients.jedis.resps.Tuple;

/** Does with Jedis what it is used for: Interop host port standalone|cluster [direct]. */
public class Interop {
  private static final boolean SECURE = System.getenv("INTEROP_TLS") != null;
  private static final JedisClientConfig CONFIG = DefaultJedisClientConfig.builder().ssl(SECURE).build();

  private final HostAndPort address;
  private final boolean cluster;
  private final boolean direct;
  private final UnifiedJedis redis;
  private final ExecutorService threads = Executors.newCachedThreadPool();

  Interop(HostAndPort address, boolean cluster, boolean direct) {
    this.address = address;
    this.cluster = cluster;
    this.direct = direct;
    redis = cluster ? RedisClusterClient.builder().nodes(Set.of(address)).clientConfig(CONFIG).build() : pool();
  }

  private RedisClient pool() {
    return RedisClient.builder().hostAndPort(address).clientConfig(CONFIG).build();
  }

  interface Step {
    void run() throws Exception;
  }

  static void expect(String what, Object got, Object wanted) {
    if (!Objects.equals(got, wanted)) {
      throw new AssertionError(what + ": got " + got + ", want " + wanted);
    }
  }

  void strings() {
    byte[] key = {'s', 0}, binary = {0, '\r', '\n', '$', '5', '\r', '\n', -1, '{', '}'};
    expect("SET", redis.set(key, binary, SetParams.setParams().ex(60)), "OK");
    expect("GET", Arrays.toString(redis.get(key)), Arrays.toString(binary));
    expect("SET NX", redis.set(key, binary, SetParams.setParams().nx()), null);
    expect("INCRBY", redis.incrBy("number", 42), 42L);
    expect("GET of nothing", redis.get("missing"), null);
  }

  void hashes() {
    expect("HSET", redis.hset("hash", Map.of("name", "leash", "legs", "4")), 2L);
    expect("HGETALL", redis.hgetAll("hash"), Map.of("name", "leash", "legs", "4"));
  }

  void lists() {
    expect("RPUSH", redis.rpush("list", "a", "b", "c"), 3L);
    expect("LRANGE", redis.lrange("list", 0, -1), List.of("a", "b", "c"));
  }

  void sets() {
    expect("SADD", redis.sadd("set", "a", "b", "a"), 2L);
    expect("SMEMBERS", redis.smembers("set"), Set.of("a", "b"));
  }

  void zsets() {
    expect("ZADD", redis.zadd("zset", Map.of("a", 1.0, "b", 2.5)), 2L);
    expect("ZRANGE", redis.zrangeWithScores("zset", 0, -1), List.of(new Tuple("a", 1.0), new Tuple("b", 2.5)));
  }

  void streams() {
    List<StreamEntryID> ids = new ArrayList<>();
    for (int i = 0; i < 3; i++) {
      ids.add(redis.xadd("stream", StreamEntryID.NEW_ENTRY, Map.of("n", "" + i)));
    }
    expect("XGROUP CREATE", redis.xgroupCreate("stream", "group", new StreamEntryID("0-0"), false), "OK");
    List<StreamEntry> read = readGroup().get(0).getValue();
    expect("XREADGROUP ids", read.stream().map(StreamEntry::getID).toList(), ids);
    expect("XREADGROUP fields", read.get(2).getFields(), Map.of("n", "2"));
    expect("XACK", redis.xack("stream", "group", ids.get(0), ids.get(2)), 2L);
    expect("XPENDING", redis.xpending("stream", "group").getTotal(), 1L);
    expect("XREADGROUP BLOCK of nothing", readGroup(), null);
  }

  private List<Map.Entry<String, List<StreamEntry>>> readGroup() {
    return redis.xreadGroup("group", "one", XReadGroupParams.xReadGroupParams().block(100),
        Map.of("stream", StreamEntryID.XREADGROUP_UNDELIVERED_ENTRY));
  }

  void keysOverSlots() {
    List<String> keys = IntStream.range(0, 100).mapToObj(i -> "multi:" + i).toList();
    List<String> pairs = keys.stream().flatMap(key -> List.of(key, key + "!").stream()).toList();
    List<String> asked = new ArrayList<>(keys);
    asked.add("missing");
    List<String> values = new ArrayList<>(keys.stream().map(key -> key + "!").toList());
    values.add(null);
    expect("MSET", redis.mset(pairs.toArray(String[]::new)), "OK");
    expect("MGET", redis.mget(asked.toArray(String[]::new)), values);
    expect("DEL", redis.del(keys.toArray(String[]::new)), 100L);
  }

  void pipeline() {
    List<Object> wanted = new ArrayList<>();
    try (AbstractPipeline p = redis.pipelined()) {
      List<Response<String>> replies = new ArrayList<>();
      for (int i = 0; i < 5000; i++) {
        replies.add(p.set("pipe:" + i, "" + i));
        replies.add(p.get("pipe:" + i));
        wanted.add("OK");
        wanted.add("" + i);
      }
      p.sync();
      expect("replies", replies.stream().<Object>map(Response::get).toList(), wanted);
    }
  }

  void transaction() {
    try (AbstractTransaction tx = redis.multi()) {
      tx.set("{tx}text", "words");
      tx.incrBy("{tx}number", 7);
      tx.lpush("{tx}text", "no list");
      List<Object> replies = tx.exec();
      expect("EXEC", replies.subList(0, 2), List.of("OK", 7L));
      expect("LPUSH to a string", ((JedisException) replies.get(2)).getMessage().split(" ")[0], "WRONGTYPE");
    }
  }

  /** Four threads add to one counter by reading and writing it, 25 times each. */
  void watch() throws Exception {
    List<Callable<Void>> workers = new ArrayList<>();
    for (int worker = 0; worker < 4; worker++) {
      workers.add(() -> {
        for (int done = 0; done < 25; ) {
          try (AbstractTransaction tx = redis.transaction(false)) {
            tx.watch("counter");
            String before = redis.get("counter");
            tx.multi();
            tx.set("counter", "" + (before == null ? 1 : Integer.parseInt(before) + 1));
            if (tx.exec() != null) {
              done++; // else another one was faster
            }
          }
        }
        return null;
      });
    }
    for (Future<Void> worker : threads.invokeAll(workers)) {
      worker.get();
    }
    expect("counter", redis.get("counter"), "100");
  }

  void pubsub() throws Exception {
    BlockingQueue<List<String>> events = new LinkedBlockingQueue<>();
    JedisPubSub news = new JedisPubSub() {
      @Override public void onSubscribe(String channel, int count) { events.add(List.of("subscribe", channel)); }
      @Override public void onMessage(String channel, String text) { events.add(List.of(channel, text)); }
    };
    JedisPubSub weather = new JedisPubSub() {
      @Override public void onPSubscribe(String pattern, int count) { events.add(List.of("psubscribe", pattern)); }
      @Override public void onPMessage(String pattern, String channel, String text) { events.add(List.of(pattern, channel, text)); }
    };
    Future<?> first = threads.submit(() -> redis.subscribe(news, "news"));
    expect("confirmation", events.poll(5, TimeUnit.SECONDS), List.of("subscribe", "news"));
    Future<?> second = threads.submit(() -> redis.psubscribe(weather, "weather.*"));
    expect("confirmation", events.poll(5, TimeUnit.SECONDS), List.of("psubscribe", "weather.*"));
    for (int i = 0; i < 20; i++) {
      redis.publish("news", "" + i);
      expect("message", events.poll(5, TimeUnit.SECONDS), List.of("news", "" + i));
      redis.publish("weather.sea", "" + i);
      expect("message", events.poll(5, TimeUnit.SECONDS), List.of("weather.*", "weather.sea", "" + i));
    }
    news.unsubscribe();
    weather.punsubscribe();
    first.get(5, TimeUnit.SECONDS);
    second.get(5, TimeUnit.SECONDS);
  }

  /** Only the cluster's client has it. */
  void shardedPubsub() throws Exception {
    BlockingQueue<List<String>> events = new LinkedBlockingQueue<>();
    JedisShardedPubSub shard = new JedisShardedPubSub() {
      @Override public void onSSubscribe(String channel, int count) { events.add(List.of("ssubscribe", channel)); }
      @Override public void onSMessage(String channel, String text) { events.add(List.of(channel, text)); }
    };
    RedisClusterClient client = (RedisClusterClient) redis;
    Future<?> subscription = threads.submit(() -> client.ssubscribe(shard, "shard"));
    expect("confirmation", events.poll(5, TimeUnit.SECONDS), List.of("ssubscribe", "shard"));
    for (int i = 0; i < 20; i++) {
      client.spublish("shard", "" + i);
      expect("message", events.poll(5, TimeUnit.SECONDS), List.of("shard", "" + i));
    }
    shard.sunsubscribe();
    subscription.get(5, TimeUnit.SECONDS);
  }

  void blocking() throws Exception {
    expect("BLPOP of nothing", redis.blpop(0.2, "queue"), null);
    Future<Map.Entry<String, String>> popped = threads.submit(() -> redis.blpop(10.0, "queue"));
    Thread.sleep(100); // so that the pop is waiting
    expect("RPUSH", redis.rpush("queue", "job"), 1L);
    expect("BLPOP", popped.get(5, TimeUnit.SECONDS), Map.entry("queue", "job"));
  }

  void scripts() {
    String script = "return {KEYS[1], ARGV[1] + 1} -- jedis " + cluster;
    List<Object> wanted = List.of("script", 42L);
    String sha = sha1(script);
    try {
      throw new AssertionError("EVALSHA of a new script: got " + redis.evalsha(sha, 1, "script", "41"));
    } catch (JedisNoScriptException e) {
      expect("EVAL", redis.eval(script, 1, "script", "41"), wanted);
    }
    expect("EVALSHA", redis.evalsha(sha, 1, "script", "41"), wanted);
    String other = script + " again";
    expect("SCRIPT LOAD", redis.scriptLoad(other, "script"), sha1(other));
    expect("EVALSHA of what was loaded", redis.evalsha(sha1(other), 1, "script", "41"), wanted);
  }

  private static String sha1(String text) {
    try {
      byte[] sum = java.security.MessageDigest.getInstance("SHA-1").digest(text.getBytes());
      return java.util.HexFormat.of().formatHex(sum);
    } catch (java.security.NoSuchAlgorithmException e) {
      throw new IllegalStateException(e);
    }
  }

  void scan() {
    try (AbstractPipeline p = redis.pipelined()) {
      for (int i = 0; i < 10000; i++) {
        p.set("scan:" + i, "");
      }
      p.sync();
    }
    Set<String> seen = new HashSet<>();
    ScanIteration scan = redis.scanIteration(100, "scan:*");
    while (!scan.isIterationCompleted()) {
      seen.addAll(scan.nextBatchList());
    }
    expect("keys seen", seen.size(), 10000);
  }

  void largeValue() {
    byte[] large = "0123456789abcde\n".repeat(1 << 20).getBytes();
    expect("SET", redis.set("large".getBytes(), large), "OK");
    expect("16 MB come back", Arrays.equals(redis.get("large".getBytes()), large), true);
  }

  /** All connections are killed. The pool finds out one by one, and then all is well again. */
  void reconnect() throws Exception {
    try (Jedis killer = new Jedis(address, CONFIG)) {
      long killed = killer.clientKill(new ClientKillParams().type(ClientType.NORMAL).skipMe(ClientKillParams.SkipMe.YES));
      expect("some were killed", killed > 0, true);
    }
    for (long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(10); ; Thread.sleep(10)) {
      try {
        for (int i = 0; i < 20; i++) {
          expect("SET after CLIENT KILL", redis.set("back:" + i, "" + i), "OK");
        }
        return;
      } catch (JedisConnectionException e) {
        if (System.nanoTime() > end) {
          throw e;
        }
      }
    }
  }

  enum Lock implements ProtocolCommand {
    ACQUIRE, RELEASE;

    @Override public byte[] getRaw() {
      return ("LOCK." + name()).getBytes();
    }
  }

  /** The token is passed along, since a pool may release on another connection than it acquired on. */
  void locks() {
    String key = "order:42";
    Object token = redis.sendCommand(key, Lock.ACQUIRE, key);
    expect("a token", token instanceof Long n && n > 0, true);
    expect("LOCK.ACQUIRE of a taken lock", redis.sendCommand(key, Lock.ACQUIRE, key), null);
    expect("LOCK.RELEASE", redis.sendCommand(key, Lock.RELEASE, key, "TOKEN", "" + token), 1L);
  }

  /** The lock is held while there is work, and free after it also when that failed; a lost connection is told. */
  void lockOfTheReadme() throws Exception {
    try (RedisClient pool = pool()) {
      Locked.run(pool, c -> expect("LOCK.ACQUIRE at work", acquire(), null));
      releaseFree();
      try {
        Locked.run(pool, c -> {
          throw new IllegalStateException();
        });
        throw new AssertionError("the error does not get out of the lock");
      } catch (IllegalStateException e) {
        releaseFree();
      }
      try {
        Locked.run(pool, c -> {
          try (Jedis killer = new Jedis(address, CONFIG)) {
            killer.clientKill(new ClientKillParams().id("" + c.clientId()));
          }
          c.get("stock:42");
        });
        throw new AssertionError("the loss does not get out of the lock");
      } catch (JedisConnectionException e) {
        redis.del("order:42"); // Leash leaves it to run out
      }
    }
  }

  private Object acquire() {
    return redis.sendCommand("order:42", Lock.ACQUIRE, "order:42", "BLOCK", "100");
  }

  private void releaseFree() {
    Object token = acquire();
    expect("it is free", token != null, true);
    redis.sendCommand("order:42", Lock.RELEASE, "order:42", "TOKEN", "" + token);
  }

  void password() {
    try (RedisClient c = Locked.withPassword(address.getHost(), address.getPort())) {
      Object user = c.sendCommand("ACL"::getBytes, "WHOAMI");
      expect("ACL WHOAMI", new String((byte[]) user), "shop");
    }
  }

  boolean run() {
    Map<String, Step> steps = new LinkedHashMap<>();
    steps.put("strings", this::strings);
    steps.put("hashes", this::hashes);
    steps.put("lists", this::lists);
    steps.put("sets", this::sets);
    steps.put("zsets", this::zsets);
    steps.put("streams", this::streams);
    steps.put("keys over slots", this::keysOverSlots);
    steps.put("pipeline", this::pipeline);
    if (cluster) {
      steps.put("sharded pub/sub", this::shardedPubsub);
    } else { // the cluster's client has no transactions
      steps.put("transaction", this::transaction);
      steps.put("watch", this::watch);
    }
    steps.put("pub/sub", this::pubsub);
    steps.put("blocking", this::blocking);
    steps.put("scripts", this::scripts);
    steps.put("scan", this::scan);
    steps.put("large value", this::largeValue);
    steps.put("reconnect", this::reconnect);
    if (!direct) {
      steps.put("locks", this::locks);
      if (!cluster) { // whose client has a pool for each node
        steps.put("lock of the readme", this::lockOfTheReadme);
        if (!SECURE) { // the code of the page has no TLS
          steps.put("password", this::password);
        }
      }
    }
    boolean passed = true;
    for (Map.Entry<String, Step> step : steps.entrySet()) {
      try {
        step.getValue().run();
        System.out.println("ok " + step.getKey());
      } catch (Exception | AssertionError e) {
        passed = false;
        System.out.println("FAILED " + step.getKey() + ": " + e);
      }
    }
    redis.close();
    threads.shutdownNow();
    return passed;
  }

  public static void main(String[] args) {
    HostAndPort address = new HostAndPort(args[0], Integer.parseInt(args[1]));
    Interop app = new Interop(address, args[2].equals("cluster"), args.length > 3);
    System.exit(app.run() ? 0 : 1);
  }
}
