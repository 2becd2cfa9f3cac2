import java.util.ArrayList;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.util.SafeEncoder;

/**
 * The shop that oversells, in Java.
 *
 * <pre>examples/oversell/java/run</pre>
 *
 * Ten customers want a piece of which five are left. One payment takes long. The example needs a
 * Leash at 127.0.0.1:6380 (go run .) or at the address in LEASH_SERVER.
 */
public class Shop {
  static final int PIECES = 5;
  static final int CUSTOMERS = 10;
  static final int PAYMENT = 50; // in milliseconds, as all times here
  static final int SLOW_PAYMENT = 1500;
  static final int LOCK_TIME = 500;

  /** Lets one customer buy. Each has a connection of its own: a lock belongs to a connection. */
  interface Sell {
    boolean sell(Jedis c, Pay pay) throws Exception;
  }

  /** Takes the customer's money. */
  interface Pay {
    void pay() throws InterruptedException;
  }

  /** What every shop does. */
  static boolean buy(Jedis c, Pay pay) throws Exception {
    int stock = Integer.parseInt(c.get("stock"));
    if (stock == 0) {
      return false;
    }
    pay.pay();
    c.set("stock", String.valueOf(stock - 1));
    return true;
  }

  /** Takes a lock that ends after a fixed time, whether the work is done or not. */
  static boolean buyWithSetNX(Jedis c, Pay pay) throws Exception {
    while (c.set("lock:setnx", "me", SetParams.setParams().nx().px(LOCK_TIME)) == null) {
      Thread.sleep(5);
    }
    try {
      return buy(c, pay);
    } finally {
      c.del("lock:setnx");
    }
  }

  /** Takes a lock that ends with the connection. Leash renews it until then. */
  static boolean buyWithLeash(Jedis c, Pay pay) throws Exception {
    Object token = c.sendCommand(() -> SafeEncoder.encode("LOCK.ACQUIRE"), "stock:lock", "BLOCK", "0");
    try {
      return buy(c, pay);
    } finally {
      c.sendCommand(() -> SafeEncoder.encode("LOCK.RELEASE"), "stock:lock", "TOKEN", token.toString());
    }
  }

  /** Opens a connection. Replies may take a minute, because customers wait for each other. */
  static Jedis connect() {
    String server = System.getenv().getOrDefault("LEASH_SERVER", "127.0.0.1:6380");
    int colon = server.lastIndexOf(':');
    return new Jedis(server.substring(0, colon), Integer.parseInt(server.substring(colon + 1)), 60_000);
  }

  /** Fills the shop, lets the customers in and returns how many of them paid. */
  static int open(Sell sell) throws Exception {
    try (Jedis owner = connect()) {
      owner.set("stock", String.valueOf(PIECES));
    }
    AtomicBoolean first = new AtomicBoolean(true);
    Pay pay = () -> Thread.sleep(first.getAndSet(false) ? SLOW_PAYMENT : PAYMENT);
    Callable<Boolean> customer = () -> {
      try (Jedis c = connect()) {
        return sell.sell(c, pay);
      }
    };
    int sold = 0;
    var customers = Executors.newFixedThreadPool(CUSTOMERS);
    var all = new ArrayList<Callable<Boolean>>();
    for (int i = 0; i < CUSTOMERS; i++) {
      all.add(customer);
    }
    for (Future<Boolean> sale : customers.invokeAll(all)) {
      sold += sale.get() ? 1 : 0;
    }
    customers.shutdown();
    return sold;
  }

  static void show(String name, Sell sell) throws Exception {
    int sold = open(sell);
    String verdict = sold > PIECES ? (sold - PIECES) + " paid for nothing" : "as it should be";
    System.out.printf("%-15s %d pieces, %d sold: %s%n", name + ":", PIECES, sold, verdict);
  }

  public static void main(String[] args) throws Exception {
    show("without a lock", Shop::buy);
    show("with SET NX PX", Shop::buyWithSetNX);
    show("with Leash", Shop::buyWithLeash);
  }
}
