import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.LongStream;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Takes and releases RLocks of Redisson, for bench to measure. Arguments, requests and what it prints are those of bench/peers, without a
 * library's name.
 */
public final class Bench {
    private final boolean cluster;
    private final String[] addresses;
    private final Map<Integer, RedissonClient> clients = new HashMap<>(); // by the number of their connections

    private Bench(String[] args) {
        cluster = args[0].equals("cluster");
        addresses = Arrays.stream(args).skip(cluster ? 1 : 0).map(a -> "redis://" + a).toArray(String[]::new);
    }

    public static void main(String[] args) throws Exception {
        Bench bench = new Bench(args);
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = requests.readLine()) != null;) {
            String[] words = line.split(" ");
            bench.measure(Integer.parseInt(words[1]), Long.parseLong(words[2]), Long.parseLong(words[3]));
        }
        System.exit(0); // with the connections and the watchdog's threads
    }

    private RedissonClient connect(int connections) {
        Config config = new Config();
        if (cluster) {
            config.useClusterServers().addNodeAddress(addresses)
                    .setMasterConnectionPoolSize(connections).setMasterConnectionMinimumIdleSize(1);
        } else {
            config.useSingleServer().setAddress(addresses[0])
                    .setConnectionPoolSize(connections).setConnectionMinimumIdleSize(1);
        }
        return Redisson.create(config);
    }

    private void measure(int threads, long warmup, long round) throws Exception {
        RedissonClient client = clients.computeIfAbsent(threads, this::connect);
        List<Worker> workers = new ArrayList<>();
        AtomicReference<Throwable> failure = new AtomicReference<>();
        for (int i = 0; i < threads; i++) {
            workers.add(new Worker(client.getLock("bench:" + i), failure));
        }
        workers.forEach(Thread::start);
        Thread.sleep(warmup);
        workers.forEach(w -> w.counting = true);
        long began = System.nanoTime();
        System.out.println("begin");
        Thread.sleep(round);
        workers.forEach(w -> w.counting = false);
        long elapsed = System.nanoTime() - began;
        System.out.println("over");
        workers.forEach(w -> w.over = true);
        for (Worker w : workers) {
            w.join();
        }
        if (failure.get() != null) {
            failure.get().printStackTrace();
            System.exit(1);
        }
        long[] all = workers.stream().flatMapToLong(w -> LongStream.of(w.latencies).limit(w.pairs)).sorted().toArray();
        if (all.length == 0) {
            System.err.println("no pair within " + round + " ms");
            System.exit(1);
        }
        System.out.println("end " + all.length + " " + elapsed + " " + all[all.length / 2] + " " + all[(int) (all.length * 99L / 100)]);
    }

    /** Takes and releases one lock over and over. */
    private static final class Worker extends Thread {
        private final RLock lock;
        private final AtomicReference<Throwable> failure;
        private volatile boolean counting;
        private volatile boolean over;
        private long[] latencies = new long[1024]; // ns, the first of them
        private int pairs;

        Worker(RLock lock, AtomicReference<Throwable> failure) {
            this.lock = lock;
            this.failure = failure;
        }

        @Override
        public void run() {
            try {
                while (!over) {
                    pair();
                }
            } catch (Throwable t) {
                failure.compareAndSet(null, t);
            }
        }

        private void pair() {
            long began = System.nanoTime();
            if (!lock.tryLock()) {
                throw new IllegalStateException(lock.getName() + " was taken");
            }
            lock.unlock();
            if (!counting) {
                return;
            }
            if (pairs == latencies.length) {
                latencies = Arrays.copyOf(latencies, 2 * pairs);
            }
            latencies[pairs++] = System.nanoTime() - began;
        }
    }
}
