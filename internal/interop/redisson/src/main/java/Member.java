import java.util.ArrayList;
import java.util.List;
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

  /** A thread of a Java program. What it takes, a subclass says. */
  abstract static class OfRedisson extends Member {
    private final RedissonClient redisson;

    OfRedisson(RedissonClient redisson) {
      this.redisson = redisson;
    }

    static OfRedisson of(RedissonClient redisson, RLock lock) {
      return new OfRedisson(redisson) {
        @Override void lock() {
          lock.lock();
        }

        @Override void unlock() {
          lock.unlock();
        }
      };
    }

    @Override final void increment(String key) {
      RBucket<String> bucket = redisson.getBucket(key);
      String before = bucket.get();
      bucket.set("" + (before == null ? 1 : Integer.parseInt(before) + 1));
    }
  }

  /** A connection to Leash. What it says, a subclass says. */
  abstract static class OfLeash extends Member {
    final Leash leash;

    OfLeash(Leash leash) {
      this.leash = leash;
    }

    /** The options are those of LOCK.ACQUIRE. */
    static OfLeash of(Leash leash, String key, Object... options) {
      List<Object> acquire = new ArrayList<>(List.of("LOCK.ACQUIRE", key, "BLOCK", 0));
      acquire.addAll(List.of(options));
      return new OfLeash(leash) {
        private Object token;

        @Override void lock() {
          token = leash.call(acquire.toArray());
        }

        @Override void unlock() {
          leash.call("LOCK.RELEASE", key, "TOKEN", token);
        }
      };
    }

    @Override final void increment(String key) {
      Object before = leash.call("GET", key);
      leash.call("SET", key, before == null ? 1 : Integer.parseInt((String) before) + 1);
    }
  }
}
