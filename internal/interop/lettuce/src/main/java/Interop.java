import io.lettuce.core.AbstractRedisClient;
import io.lettuce.core.Consumer;
import io.lettuce.core.KeyValue;
import io.lettuce.core.KillArgs;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisException;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisNoScriptException;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScanArgs;
import io.lettuce.core.ScanIterator;
import io.lettuce.core.ScoredValue;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.SetArgs;
import io.lettuce.core.StreamMessage;
import io.lettuce.core.TransactionResult;
import io.lettuce.core.XReadArgs;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.api.async.RedisClusterAsyncCommands;
import io.lettuce.core.cluster.api.sync.RedisClusterCommands;
import io.lettuce.core.codec.ByteArrayCodec;
import io.lettuce.core.codec.RedisCodec;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.IntegerOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import io.lettuce.core.pubsub.StatefulRedisPubSubConnection;
import java.util.ArrayList;
import java.util.Arrays;
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
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** Does with Lettuce what it is used for: Interop host port standalone|cluster [direct]. */
public class Interop {
  private static final boolean SECURE = System.getenv("INTEROP_TLS") != null;

  private final RedisURI uri;
  private final boolean cluster;
  private final boolean direct;
  private final AbstractRedisClient client;
  private final RedisClusterCommands<String, String> redis;
  private final RedisClusterAsyncCommands<String, String> async;

  Interop(RedisURI uri, boolean cluster, boolean direct) {
    this.uri = uri;
    this.cluster = cluster;
    this.direct = direct;
    if (cluster) {
      client = RedisClusterClient.create(uri);
      var connection = ((RedisClusterClient) client).connect();
      redis = connection.sync();
      async = connection.async();
    } else {
      client = RedisClient.create(uri);
      var connection = ((RedisClient) client).connect();
      redis = connection.sync();
      async = connection.async();
    }
  }

  /** The commands of another connection, or several for a cluster. */
  private <T> RedisClusterCommands<T, T> connect(RedisCodec<T, T> codec) {
    return cluster ? ((RedisClusterClient) client).connect(codec).sync() : ((RedisClient) client).connect(codec).sync();
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
    RedisClusterCommands<byte[], byte[]> bytes = connect(ByteArrayCodec.INSTANCE);
    expect("SET", bytes.set(key, binary, SetArgs.Builder.ex(60)), "OK");
    expect("GET", Arrays.toString(bytes.get(key)), Arrays.toString(binary));
    expect("SET NX", bytes.set(key, binary, SetArgs.Builder.nx()), null);
    expect("INCRBY", redis.incrby("number", 42), 42L);
    expect("GET of nothing", redis.get("missing"), null);
  }

  void hashes() {
    expect("HSET", redis.hset("hash", Map.of("name", "leash", "legs", "4")), 2L);
    expect("HGETALL", redis.hgetall("hash"), Map.of("name", "leash", "legs", "4"));
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
    expect("ZADD", redis.zadd("zset", ScoredValue.just(1, "a"), ScoredValue.just(2.5, "b")), 2L);
    expect("ZRANGE", redis.zrangeWithScores("zset", 0, -1), List.of(ScoredValue.just(1, "a"), ScoredValue.just(2.5, "b")));
  }

  void streams() {
    List<String> ids = new ArrayList<>();
    for (int i = 0; i < 3; i++) {
      ids.add(redis.xadd("stream", Map.of("n", "" + i)));
    }
    expect("XGROUP CREATE", redis.xgroupCreate(XReadArgs.StreamOffset.from("stream", "0"), "group"), "OK");
    List<StreamMessage<String, String>> read = readGroup();
    expect("XREADGROUP ids", read.stream().map(StreamMessage::getId).toList(), ids);
    expect("XREADGROUP fields", read.get(2).getBody(), Map.of("n", "2"));
    expect("XACK", redis.xack("stream", "group", ids.get(0), ids.get(2)), 2L);
    expect("XPENDING", redis.xpending("stream", "group").getCount(), 1L);
    expect("XREADGROUP BLOCK of nothing", readGroup(), List.of());
  }

  private List<StreamMessage<String, String>> readGroup() {
    return redis.xreadgroup(Consumer.from("group", "one"), XReadArgs.Builder.block(100), XReadArgs.StreamOffset.lastConsumed("stream"));
  }

  void keysOverSlots() {
    Map<String, String> values = new LinkedHashMap<>();
    IntStream.range(0, 100).forEach(i -> values.put("multi:" + i, "" + i));
    String[] keys = values.keySet().toArray(String[]::new);
    List<KeyValue<String, String>> wanted = new ArrayList<>();
    values.forEach((key, value) -> wanted.add(KeyValue.just(key, value)));
    expect("MSET", redis.mset(values), "OK");
    expect("MGET", redis.mget(keys), wanted);
    expect("DEL", redis.del(keys), 100L);
    expect("MGET of nothing", redis.mget("multi:1", "multi:2"), List.of(KeyValue.empty("multi:1"), KeyValue.empty("multi:2")));
  }

  /** Whoever does not wait for replies has a pipeline. */
  void pipeline() throws Exception {
    List<RedisFuture<String>> replies = new ArrayList<>();
    for (int i = 0; i < 5000; i++) {
      replies.add(async.set("pipe:" + i, "" + i));
      replies.add(async.get("pipe:" + i));
    }
    for (int i = 0; i < 5000; i++) {
      expect("SET", replies.get(2 * i).get(5, TimeUnit.SECONDS), "OK");
      expect("GET", replies.get(2 * i + 1).get(5, TimeUnit.SECONDS), "" + i);
    }
  }

  void transaction() throws Exception {
    try (StatefulRedisConnection<String, String> connection = ((RedisClient) client).connect()) {
      RedisCommands<String, String> tx = connection.sync();
      expect("MULTI", tx.multi(), "OK");
      tx.set("{tx}text", "words");
      tx.incrby("{tx}number", 7);
      tx.lpush("{tx}text", "no list");
      TransactionResult replies = tx.exec();
      expect("EXEC", List.of(replies.get(0), replies.get(1)), List.of("OK", 7L));
      expect("LPUSH to a string", ((RedisCommandExecutionException) replies.get(2)).getMessage().split(" ")[0], "WRONGTYPE");
    }
  }

  /** Four threads, each with its connection, add to one counter by reading and writing it, 25 times each. */
  void watch() throws Exception {
    Callable<Void> worker = () -> {
      try (StatefulRedisConnection<String, String> connection = ((RedisClient) client).connect()) {
        RedisCommands<String, String> tx = connection.sync();
        for (int done = 0; done < 25; ) {
          tx.watch("counter");
          String before = tx.get("counter");
          tx.multi();
          tx.set("counter", "" + (before == null ? 1 : Integer.parseInt(before) + 1));
          if (!tx.exec().wasDiscarded()) {
            done++; // else another one was faster
          }
        }
        return null;
      }
    };
    ExecutorService threads = Executors.newFixedThreadPool(4);
    for (Future<Void> done : threads.invokeAll(List.of(worker, worker, worker, worker))) {
      done.get();
    }
    threads.shutdown();
    expect("counter", redis.get("counter"), "100");
  }

  void pubsub() throws Exception {
    BlockingQueue<List<String>> events = new LinkedBlockingQueue<>();
    try (StatefulRedisPubSubConnection<String, String> connection =
        cluster ? ((RedisClusterClient) client).connectPubSub() : ((RedisClient) client).connectPubSub()) {
      connection.addListener(new RedisPubSubAdapter<>() {
        @Override public void message(String channel, String text) { events.add(List.of(channel, text)); }
        @Override public void message(String pattern, String channel, String text) { events.add(List.of(pattern, channel, text)); }
        @Override public void smessage(String channel, String text) { events.add(List.of(channel, text)); }
      });
      connection.sync().subscribe("news");
      connection.sync().psubscribe("weather.*");
      connection.sync().ssubscribe("shard");
      for (int i = 0; i < 20; i++) {
        redis.publish("news", "" + i);
        expect("message", events.poll(5, TimeUnit.SECONDS), List.of("news", "" + i));
        redis.publish("weather.sea", "" + i);
        expect("message", events.poll(5, TimeUnit.SECONDS), List.of("weather.*", "weather.sea", "" + i));
        redis.spublish("shard", "" + i);
        expect("message", events.poll(5, TimeUnit.SECONDS), List.of("shard", "" + i));
      }
    }
  }

  void blocking() throws Exception {
    expect("BLPOP of nothing", redis.blpop(0.2, "queue"), null);
    Future<KeyValue<String, String>> popped = async.blpop(10, "queue").toCompletableFuture();
    RedisClusterCommands<String, String> pusher = connect(StringCodec.UTF8);
    Thread.sleep(100); // so that the pop is waiting
    expect("RPUSH", pusher.rpush("queue", "job"), 1L);
    expect("BLPOP", popped.get(5, TimeUnit.SECONDS), KeyValue.just("queue", "job"));
  }

  void scripts() {
    String script = "return {KEYS[1], ARGV[1] + 1} -- lettuce " + cluster;
    String sha = redis.digest(script);
    String[] keys = {"script"};
    List<Object> wanted = List.of("script", 42L);
    try {
      throw new AssertionError("EVALSHA of a new script: got " + redis.evalsha(sha, ScriptOutputType.MULTI, keys, "41"));
    } catch (RedisNoScriptException e) {
      expect("EVAL", redis.eval(script, ScriptOutputType.MULTI, keys, "41"), wanted);
    }
    expect("EVALSHA", redis.evalsha(sha, ScriptOutputType.MULTI, keys, "41"), wanted);
    String other = script + " again";
    expect("SCRIPT LOAD", redis.scriptLoad(other), redis.digest(other));
    expect("EVALSHA of what was loaded", redis.evalsha(redis.digest(other), ScriptOutputType.MULTI, keys, "41"), wanted);
  }

  void scan() throws Exception {
    List<RedisFuture<String>> replies = new ArrayList<>();
    for (int i = 0; i < 10000; i++) {
      replies.add(async.set("scan:" + i, ""));
    }
    for (RedisFuture<String> reply : replies) {
      reply.get(5, TimeUnit.SECONDS);
    }
    Set<String> seen = ScanIterator.scan(redis, ScanArgs.Builder.matches("scan:*").limit(100)).stream().collect(Collectors.toSet());
    expect("keys seen", seen.size(), 10000);
  }

  void largeValue() {
    String large = "0123456789abcde\n".repeat(1 << 20);
    expect("SET", redis.set("large", large), "OK");
    expect("16 MB come back", redis.get("large").equals(large), true);
  }

  /** All connections are killed, and the client goes on as if nothing had happened. */
  void reconnect() {
    RedisClient other = RedisClient.create(uri);
    long killed = other.connect().sync().clientKill(KillArgs.Builder.typeNormal().skipme());
    other.shutdown();
    expect("some were killed", killed > 0, true);
    for (int i = 0; i < 20; i++) {
      expect("SET after CLIENT KILL", redis.set("back:" + i, "" + i), "OK");
    }
  }

  enum Lock implements ProtocolKeyword {
    ACQUIRE, RELEASE;

    @Override public byte[] getBytes() {
      return ("LOCK." + name()).getBytes();
    }
  }

  void locks() {
    Long token = lock(Lock.ACQUIRE);
    expect("a token", token != null && token > 0, true);
    expect("LOCK.ACQUIRE of a taken lock", lock(Lock.ACQUIRE), null);
    expect("LOCK.RELEASE", lock(Lock.RELEASE), 1L); // what this connection took last
  }

  private Long lock(Lock command) {
    return redis.dispatch(command, new IntegerOutput<>(StringCodec.UTF8), new CommandArgs<>(StringCodec.UTF8).addKey("order:42"));
  }

  /** The lock is held while there is work, and free after it also when that failed; a lost connection is told. */
  void lockOfTheReadme() throws Exception {
    Locked.run(uri, c -> expect("LOCK.ACQUIRE at work", lock(Lock.ACQUIRE), null));
    releaseFree();
    try {
      Locked.run(uri, c -> {
        throw new IllegalStateException();
      });
      throw new AssertionError("the error does not get out of the lock");
    } catch (IllegalStateException e) {
      releaseFree();
    }
    try {
      Locked.run(uri, c -> {
        redis.clientKill(KillArgs.Builder.id(c.clientId()));
        c.get("stock:42");
      });
      throw new AssertionError("the loss does not get out of the lock");
    } catch (RedisException e) {
      redis.del("order:42"); // Leash leaves it to run out
    }
  }

  private void releaseFree() throws InterruptedException {
    for (long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(5); lock(Lock.ACQUIRE) == null; Thread.sleep(10)) {
      expect("in time", System.nanoTime() < end, true);
    }
    expect("LOCK.RELEASE", lock(Lock.RELEASE), 1L);
  }

  void password() {
    RedisURI user = Locked.withPassword(uri.getHost(), uri.getPort());
    user.setSsl(SECURE);
    RedisClient other = RedisClient.create(user);
    try {
      expect("ACL WHOAMI", other.connect().sync().aclWhoami(), "shop");
    } finally {
      other.shutdown(0, 5, TimeUnit.SECONDS);
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
    if (!cluster) { // the cluster's client has no transactions
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
      if (!cluster) { // whose client has connections to each node
        steps.put("lock of the readme", this::lockOfTheReadme);
        steps.put("password", this::password);
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
    client.shutdown(0, 5, TimeUnit.SECONDS);
    return passed;
  }

  public static void main(String[] args) {
    RedisURI uri = RedisURI.create(args[0], Integer.parseInt(args[1]));
    uri.setSsl(SECURE);
    Interop app = new Interop(uri, args[2].equals("cluster"), args.length > 3);
    System.exit(app.run() ? 0 : 1);
  }
}
