import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import javax.net.ssl.SSLSocketFactory;

/** One connection to Leash that says what it is told to, in RESP2. Not for several threads at once. */
final class Leash implements AutoCloseable {
  /** An error that Leash answered. */
  static final class Refused extends RuntimeException {
    Refused(String message) {
      super(message);
    }

    /** The first word, for machines. */
    String code() {
      return getMessage().split(" ")[0];
    }
  }

  private static final int PATIENCE_MILLIS = 40_000;

  private final Socket socket;
  private final DataInputStream in;

  Leash(String host, int port) {
    try {
      socket = Sides.SECURE ? SSLSocketFactory.getDefault().createSocket(host, port) : new Socket(host, port);
      socket.setTcpNoDelay(true);
      socket.setSoTimeout(PATIENCE_MILLIS);
      in = new DataInputStream(new BufferedInputStream(socket.getInputStream()));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Returns a Long, a String, a List of such, or null; throws Refused for an error. */
  Object call(Object... words) {
    StringBuilder command = new StringBuilder("*" + words.length + "\r\n");
    for (Object word : words) {
      String text = word.toString();
      command.append("$").append(text.getBytes(StandardCharsets.UTF_8).length).append("\r\n").append(text).append("\r\n");
    }
    try {
      socket.getOutputStream().write(command.toString().getBytes(StandardCharsets.UTF_8));
      return reply();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private Object reply() throws IOException {
    String line = line();
    String rest = line.substring(1);
    switch (line.charAt(0)) {
      case '+':
        return rest;
      case '-':
        throw new Refused(rest);
      case ':':
        return Long.valueOf(rest);
      case '$':
        return bulk(Integer.parseInt(rest));
      case '*':
        return array(Integer.parseInt(rest));
      default:
        throw new IOException("not RESP2: " + line);
    }
  }

  private String bulk(int length) throws IOException {
    if (length < 0) {
      return null;
    }
    byte[] bytes = in.readNBytes(length);
    in.skipNBytes(2);
    return new String(bytes, StandardCharsets.UTF_8);
  }

  private List<Object> array(int length) throws IOException {
    if (length < 0) {
      return null;
    }
    List<Object> all = new ArrayList<>();
    for (int i = 0; i < length; i++) {
      all.add(reply());
    }
    return all;
  }

  private String line() throws IOException {
    StringBuilder text = new StringBuilder();
    for (byte b = in.readByte(); b != '\r'; b = in.readByte()) {
      text.append((char) (b & 0xff));
    }
    in.skipNBytes(1);
    return text.toString();
  }

  /** Waits until Leash has closed the connection. */
  void awaitClose() throws IOException {
    if (in.read() >= 0) {
      throw new IOException("Leash said something where it should have closed");
    }
  }

  /** Says goodbye by a FIN, as a client does that ends. */
  @Override public void close() {
    try {
      socket.close();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
