import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RBucket;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** One who contends for a lock, with a thread of its own that does all it does: Redisson's holds are a thread's. */
abstract class Member implements AutoCloseable {
  private final ExecutorService thread = Executors.newSingleThreadExecutor();

  abstract void lock() throws Exception;

  abstract void unlock() throws Exception;

  /** Adds one to the number at the key by reading and writing it. */
  abstract void increment(String key) throws Exception;

  <T> Future<T> begin(Callable<T> work) {
    return thread.submit(work);
  }

  Future<Long> beginLock() {
    return begin(() -> {
      lock();
      return System.nanoTime();
    });
  }

  void lockNow() throws Exception {
    await(beginLock());
  }

  void unlockNow() throws Exception {
    await(begin(() -> {
      unlock();
      return null;
    }));
  }

  static <T> T await(Future<T> work) throws Exception {
    return work.get(60, TimeUnit.SECONDS);
  }

  @Override public void close() throws Exception {
    thread.shutdownNow();
  }

  /** A thread of a Java program. */
  static final class OfRedisson extends Member {
    private final RedissonClient redisson;
    private final RLock lock;

    OfRedisson(RedissonClient redisson, RLock lock) {
      this.redisson = redisson;
      this.lock = lock;
    }

    @Override void lock() {
      lock.lock();
    }

    @Override void unlock() {
      lock.unlock();
    }

    @Override void increment(String key) {
      RBucket<String> bucket = redisson.getBucket(key);
      String before = bucket.get();
      bucket.set("" + (before == null ? 1 : Integer.parseInt(before) + 1));
    }
  }

  /** A connection to Leash. */
  static final class OfLeash extends Member {
    private final Leash leash;
    private final Object[] acquire;
    private final String key;
    private Object token;

    /** The options are those of LOCK.ACQUIRE. */
    OfLeash(Leash leash, String key, String... options) {
      this.leash = leash;
      this.key = key;
      this.acquire = new Object[4 + options.length];
      System.arraycopy(new Object[] {"LOCK.ACQUIRE", key, "BLOCK", 0}, 0, acquire, 0, 4);
      System.arraycopy(options, 0, acquire, 4, options.length);
    }

    @Override void lock() {
      token = leash.call(acquire);
    }

    @Override void unlock() {
      leash.call("LOCK.RELEASE", key, "TOKEN", token);
    }

    @Override void increment(String key) {
      Object before = leash.call("GET", key);
      leash.call("SET", key, before == null ? 1 : Integer.parseInt((String) before) + 1);
    }
  }
}
