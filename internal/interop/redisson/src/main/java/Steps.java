import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/** What is tried over one route. Most steps wait more than they work, and go together. */
final class Steps {
  /** Something that is tried. It returns its figures, or "". */
  interface Step {
    String run() throws Exception;
  }

  private static final int AT_ONCE = 8;
  private static final int PATIENCE_SECONDS = 90;

  private final String route;
  private final Map<String, Step> together = new LinkedHashMap<>();
  private final Map<String, Step> alone = new LinkedHashMap<>();
  private boolean passed = true;

  Steps(String route) {
    this.route = route;
  }

  /** Adds a step that may run beside others. */
  void add(String name, Step step) {
    together.put(name, step);
  }

  /** Adds a step that measures, and so runs when nothing else does. The harness shows its line always. */
  void addAlone(String name, Step step) {
    alone.put(name, step);
  }

  /** Runs all, and prints a line for each. Returns whether all went well. */
  boolean run() throws Exception {
    for (Map.Entry<String, Step> step : alone.entrySet()) {
      report(attempt("measured", step.getKey(), step.getValue()).call());
    }
    ExecutorService threads = Executors.newFixedThreadPool(AT_ONCE);
    List<Callable<String>> all = together.entrySet().stream().map(e -> attempt("ok", e.getKey(), e.getValue())).toList();
    Iterator<String> names = together.keySet().iterator();
    for (Future<String> done : threads.invokeAll(all, PATIENCE_SECONDS, TimeUnit.SECONDS)) {
      String name = names.next();
      report(done.isCancelled() ? "FAILED " + route + ": " + name + ": no end" : done.get());
    }
    threads.shutdownNow();
    return passed;
  }

  private Callable<String> attempt(String verdict, String name, Step step) {
    return () -> {
      long began = System.nanoTime();
      try {
        String figures = step.run();
        double seconds = (System.nanoTime() - began) / 1e9;
        return String.format("%s %s: %s (%.1f s)%s", verdict, route, name, seconds, figures.isEmpty() ? "" : ": " + figures);
      } catch (Exception | AssertionError e) {
        return "FAILED " + route + ": " + name + ": " + e;
      }
    };
  }

  private void report(String line) {
    passed &= !line.startsWith("FAILED ");
    System.out.println(line);
  }
}
