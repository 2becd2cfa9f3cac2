import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.IntegerOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;

/** Holds a lock as the README says. */
final class Locked {
  private Locked() {}

  static void run(RedisURI uri, Consumer<RedisCommands<String, String>> work) throws TimeoutException {
    // README
    RedisClient client = RedisClient.create(uri);
    client.setOptions(ClientOptions.builder().autoReconnect(false).build()); // a connection that is lost stays lost
    ProtocolKeyword acquire = "LOCK.ACQUIRE"::getBytes, release = "LOCK.RELEASE"::getBytes;

    try (StatefulRedisConnection<String, String> c = client.connect()) { // for this hold alone; closing it releases, too
      Long token = c.sync().dispatch(acquire, new IntegerOutput<>(StringCodec.UTF8),
          new CommandArgs<>(StringCodec.UTF8).addKey("order:42").add("BLOCK").add(10000));
      if (token == null) {
        throw new TimeoutException("order:42 is taken");
      }
      work.accept(c.sync());
      c.sync().dispatch(release, new IntegerOutput<>(StringCodec.UTF8),
          new CommandArgs<>(StringCodec.UTF8).addKey("order:42").add("TOKEN").add(token));
    }
    // end of README
    client.shutdown();
  }
}
