// The overview: traffic, errors, latency, locks and nodes.

import { el, setText, duration, short, count, bytes, rate, sparkline } from "./dom.js";
import { table, text } from "./table.js";

const keptSamples = 60;

// samples are the figures of the last two minutes, from which rates are computed.
export class Samples {
  list = [];
  add(o) {
    const last = this.list.at(-1)?.raw;
    if (last && (o.at_ms <= last.at_ms || o.uptime_ms < last.uptime_ms)) {
      if (o.at_ms === last.at_ms) return;
      this.list = [];
    }
    this.list.push({ raw: o, ...(last && this.list.length ? between(last, o) : {}) });
    if (this.list.length > keptSamples) this.list.shift();
  }
  of(name) { return this.list.map((s) => s[name]).filter((v) => v !== undefined); }
}

const sum = (map) => Object.values(map).reduce((a, b) => a + b, 0);

// between are the rates and quantiles from one overview to the next.
function between(a, b) {
  const s = (b.at_ms - a.at_ms) / 1000;
  const more = (of) => (of(b) - of(a)) / s;
  const redis = b.latency.redis.map((n, i) => n - a.latency.redis[i]);
  return {
    commands: more((o) => sum(o.traffic.commands)), errors: more((o) => sum(o.traffic.errors)),
    received: more((o) => o.traffic.received_bytes), sent: more((o) => o.traffic.sent_bytes),
    acquires: more((o) => o.locks.acquires), median: quantile(redis, b.latency.bounds_us, 0.5),
    high: quantile(redis, b.latency.bounds_us, 0.99), holds: b.locks.holds, waiters: b.locks.waiters,
  };
}

// quantile is the upper limit of the bucket that has it, in microseconds.
function quantile(counts, bounds, q) {
  const all = counts.reduce((a, b) => a + b, 0);
  if (!all) return undefined;
  let n = 0;
  const i = counts.findIndex((c) => (n += c) >= q * all);
  return bounds[Math.min(i, bounds.length - 1)];
}

function tile(label, chart) {
  const value = el("strong", {}, "–"), detail = el("small", {}, "\u00a0");
  const [svg, draw] = chart ? sparkline(label) : [];
  const element = el("div", { class: "tile" }, el("span", {}, label), value, detail, ...(svg ? [svg] : []));
  return { element, set(v, d = "\u00a0", values, bad) {
    setText(value, v);
    setText(detail, d);
    element.classList.toggle("bad", Boolean(bad));
    if (draw && values?.length) draw(values);
  } };
}

const nodeColumns = [
  { title: "Node", class: "wide", fill: text((n) => n.addr) },
  { title: "Role", fill: text((n) => n.role) },
  { title: "State", fill: nodeState },
  { title: "Round trip", class: "number", fill: text((n) => short(n.round_trip_us)) },
  { title: "Shared links", class: "number", fill: text((n) => n.shared_links) },
  { title: "Detour links", class: "number", fill: text((n) => n.detour_links) },
  { title: "Pinned links", class: "number", fill: text((n) => n.pinned_links) },
];

function nodeState(td, n) {
  if (!td.firstElementChild) td.append(el("span"));
  td.firstElementChild.className = "tag " + (!n.usable ? "lost" : n.busy ? "expiring" : "released");
  setText(td.firstElementChild, !n.usable ? "no answer" : n.busy ? "runs a slow script" : "answers");
}

export function overviewView(stream) {
  const tiles = {
    holds: tile("Holds", true), waiters: tile("Waiters", true), losses: tile("Locks lost"), clients: tile("Clients"),
    commands: tile("Commands", true), errors: tile("Errors", true), latency: tile("Redis latency", true),
    bytes: tile("Traffic"),
  };
  const nodes = table({ columns: nodeColumns, caption: "Nodes of Redis" });
  const facts = el("dl", { class: "facts" });
  const element = el("section", {}, el("h1", {}, "Overview"),
    el("div", { class: "tiles" }, ...Object.values(tiles).map((t) => t.element)),
    el("h2", {}, "Nodes of Redis"), nodes.element, el("h2", {}, "Locks since the start"), facts);

  function refresh() {
    const now = stream.samples.list.at(-1);
    if (!now) return;
    const { raw: o } = now, of = (name) => stream.samples.of(name);
    const show = (value, how) => value === undefined ? "–" : how(value);
    const modes = Object.entries(o.locks.by_mode).filter(([, n]) => n).map(([mode, n]) => count(n) + " " + mode);
    tiles.holds.set(count(o.locks.holds), modes.join(", "), of("holds"));
    tiles.waiters.set(count(o.locks.waiters), "for locks and permits", of("waiters"));
    const losses = Object.entries(o.locks.losses).filter(([, n]) => n);
    const reasons = losses.map(([why, n]) => count(n) + " " + why).join(", ");
    tiles.losses.set(count(sum(o.locks.losses)), reasons || "since the start", null, losses.length);
    tiles.clients.set(count(o.clients.now), count(o.clients.blocked) + " wait · at most " + count(o.clients.limit));
    tiles.commands.set(show(now.commands, rate), show(now.acquires, rate) + " grants of locks", of("commands"));
    const errors = count(sum(o.traffic.errors)) + " since the start";
    tiles.errors.set(show(now.errors, rate), errors, of("errors"), now.errors > 0);
    const atMost = (us) => "≤ " + short(us);
    tiles.latency.set(show(now.median, atMost), "99 %: " + show(now.high, atMost), of("median"));
    tiles.bytes.set(show(now.received, (n) => bytes(n) + "/s"), show(now.sent, (n) => bytes(n) + "/s") + " to clients");
    nodes.fill(o.nodes);
    showFacts(o);
  }

  function showFacts(o) {
    const l = o.locks;
    const list = [
      ["Granted", count(l.acquires)], ["Released", count(l.releases)], ["Handed over", count(l.handovers)],
      ["Found taken", count(l.taken)], ["Without an answer of Redis", count(l.timeouts)],
      ["Too many waiters", count(l.limited)], ["Renewals overdue", duration(l.lag_ms)],
      ["Least time left of a hold", l.margin_ms < 0 ? "–" : duration(l.margin_ms)],
      ["Grace period left", l.grace_ms ? duration(l.grace_ms) : "none"],
      ["Links lost", count(o.links_lost)], ["Clients refused", count(o.clients.refused)], ["Panics", count(o.panics)],
    ];
    if (facts.childElementCount !== list.length) {
      facts.replaceChildren(...list.map(([name]) => el("div", {}, el("dt", {}, name), el("dd"))));
    }
    list.forEach(([, value], i) => setText(facts.children[i].lastElementChild, value));
  }

  refresh();
  return { element, refresh, stop() {} };
}
