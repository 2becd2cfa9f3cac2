import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.RedisClient;

/** Holds a lock as README.md shows. */
final class Locked {
  private Locked() {}

  static void run(RedisClient redis, Consumer<Jedis> work) throws TimeoutException {
    // README
    try (Jedis c = new Jedis(redis.getPool().getResource())) { // lock, work and release share it
      Object token = c.sendBlockingCommand("LOCK.ACQUIRE"::getBytes, "order:42", "BLOCK", "10000");
      if (token == null) throw new TimeoutException("order:42 is taken");
      try {
        work.accept(c);
      } finally {
        c.sendCommand("LOCK.RELEASE"::getBytes, "order:42", "TOKEN", token.toString());
      }
    }
    // end of README
  }

  static RedisClient withPassword(String host, int port) {
    // docs
    RedisClient redis = RedisClient.create(host, port, "shop", "open-sesame");
    // end of docs
    return redis;
  }
}
