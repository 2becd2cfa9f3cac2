import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.IntegerOutput;
import io.lettuce.core.protocol.CommandArgs;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;

/** Holds a lock as docs/clients.md shows. */
final class Locked {
  private Locked() {}

  static void run(RedisURI uri, Consumer<RedisCommands<String, String>> work) throws TimeoutException {
    // docs
    RedisClient client = RedisClient.create(uri);
    client.setOptions(ClientOptions.builder().autoReconnect(false).build());
    StringCodec text = StringCodec.UTF8;

    try (StatefulRedisConnection<String, String> c = client.connect()) { // for this lock alone
      Long token = c.sync().dispatch("LOCK.ACQUIRE"::getBytes, new IntegerOutput<>(text),
          new CommandArgs<>(text).addKey("order:42").add("BLOCK").add(10000));
      if (token == null) throw new TimeoutException("order:42 is taken");
      work.accept(c.sync());
      c.sync().dispatch("LOCK.RELEASE"::getBytes, new IntegerOutput<>(text),
          new CommandArgs<>(text).addKey("order:42").add("TOKEN").add(token));
    } // the end of the connection releases the lock
    // end of docs
    client.shutdown();
  }

  static RedisURI withPassword(String host, int port) {
    // docs
    RedisURI uri = RedisURI.builder().withHost(host).withPort(port)
        .withAuthentication("shop", "open-sesame").build();
    // end of docs
    return uri;
  }
}
