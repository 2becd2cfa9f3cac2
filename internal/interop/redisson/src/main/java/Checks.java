import java.util.Objects;
import java.util.concurrent.Callable;

/** What must be so. */
final class Checks {
  private Checks() {}

  static void expect(String what, Object got, Object wanted) {
    if (!Objects.equals(got, wanted)) {
      throw new AssertionError(what + ": got " + got + ", want " + wanted);
    }
  }

  static void expectBetween(String what, double got, double least, double most) {
    if (got < least || got > most) {
      throw new AssertionError(what + ": got " + got + ", want " + least + " to " + most);
    }
  }

  static void expectAtMost(String what, double got, double most) {
    expectBetween(what, got, 0, most);
  }

  static void expectThrows(String what, Class<? extends Exception> wanted, Callable<?> work) {
    try {
      throw new AssertionError(what + ": got " + work.call() + ", want " + wanted.getSimpleName());
    } catch (Exception e) {
      expect(what, e.getClass(), wanted);
    }
  }

  static void expectRefused(String what, String code, Callable<?> work) throws Exception {
    try {
      throw new AssertionError(what + ": got " + work.call() + ", want " + code);
    } catch (Leash.Refused e) {
      expect(what, e.code(), code);
    }
  }
}
