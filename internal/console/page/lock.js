// The page of one lock: who holds it, who waits, what happened.

import { el, setText, duration, count } from "./dom.js";
import { table, text, ttlBar } from "./table.js";
import { get, mayWrite } from "./api.js";
import { eventTable } from "./views.js";
import { confirmBreak, confirmKill } from "./confirm.js";

const holderColumns = (refresh) => [
  { title: "Mode", fill: text((h) => h.mode) },
  { title: "Owner", class: "name", fill: text((h) => h.owner) },
  { title: "Client", class: "name", fill: text((h) => h.client || "unknown") },
  { title: "Through", class: "name", fill: text(through) },
  { title: "Age", class: "number", fill: text((h) => h.token ? duration(h.age_ms) : "unknown") },
  { title: "TTL", fill: ttlBar },
  { title: "Count", class: "number", fill: text((h) => h.count || "–") },
  { title: "Token", class: "number", fill: text((h) => h.token || "–") },
  { title: "", fill: (td, h) => killButton(td, h, refresh) },
];

function through(h) {
  if (h.client_id) return "this Leash";
  return h.leash ? "Leash " + h.leash.slice(0, 8) : "Redisson";
}

function killButton(td, hold, refresh) {
  const facts = [["Client", hold.client], ["Owner", hold.owner], ["Held for", duration(hold.age_ms)]];
  td.replaceChildren();
  if (hold.client_id && mayWrite()) {
    const kill = () => confirmKill(hold.client_id, facts, refresh);
    td.append(el("button", { class: "plain", onclick: kill }, "Kill client"));
  }
}

const waiterColumns = [
  { title: "Place", fill: text((w) => w.place) },
  { title: "Mode", fill: text((w) => w.mode || "–") },
  { title: "Owner", class: "name", fill: text((w) => w.owner || "without a name") },
  { title: "Client", class: "name", fill: text((w) => w.client || "–") },
  { title: "Waits for", class: "number", fill: text((w) => duration(w.waited_ms)) },
];

// lockView shows the lock of a query.
export function lockView(query) {
  const key = el("h1", { class: "key" });
  const state = el("span", { class: "pill" });
  const problem = el("p", { class: "problem", role: "alert", hidden: true });
  const free = el("p", { class: "empty", hidden: true });
  const readOnly = el("p", { class: "note", hidden: true },
    "To break it, change the token: use the one of --admin-write-token-file.");
  const holders = table({ columns: holderColumns(load), caption: "Holders" });
  const queue = table({ columns: waiterColumns, caption: "Queue" });
  const events = eventTable("Last events");
  const queueNote = el("p", { class: "note" });
  const noEvents = el("p", { class: "note" }, "No events of this lock are kept.");
  const breakIt = () => confirmBreak(shown, load);
  const button = el("button", { class: "danger", hidden: true, onclick: breakIt }, "Break this lock");
  const element = el("section", {},
    el("p", { class: "up" }, el("a", { href: "#/holds" }, "‹ Holds")),
    el("div", { class: "bar" }, key, state, button), problem, free, readOnly,
    el("h2", {}, "Holders"), holders.element, el("h2", {}, "Queue on this Leash"), queueNote, queue.element,
    el("h2", {}, "Last events"), noEvents, events.element);
  let shown = null, stopped = false, asking = false;

  async function load() {
    if (asking || stopped) return;
    asking = true;
    try {
      const lock = await get("lock?" + query);
      if (!stopped) show(lock);
    } catch (err) {
      setText(problem, err.message);
      problem.hidden = false;
    } finally {
      asking = false;
    }
  }

  function show(lock) {
    shown = lock;
    problem.hidden = true;
    setText(key, lock.key + (lock.db ? " · db " + lock.db : ""));
    setText(state, lock.mode ? lock.state + " · " + lock.mode : lock.state);
    state.className = "pill " + lock.state;
    const held = lock.holds.length > 0;
    free.hidden = held;
    setText(free, lock.state === "grace" ? "Free, but its new master grants nothing for " + duration(lock.left_ms) + "."
      : "Nobody holds this lock.");
    holders.element.hidden = !held;
    holders.fill(lock.holds);
    button.hidden = !held || !mayWrite();
    readOnly.hidden = !held || mayWrite();
    queue.element.hidden = !lock.queue.length;
    queue.fill(lock.queue.map((w, i) => ({ ...w, place: i + 1 })));
    setText(queueNote, waitersText(lock));
    events.element.hidden = !lock.events.length;
    noEvents.hidden = lock.events.length > 0;
    events.fill(lock.events.toReversed());
  }

  load();
  return { element, refresh: load, changed: load, stop() { stopped = true; }, move: queue.move };
}

function waitersText(lock) {
  const some = lock.waiters > lock.queue.length ? "; the first " + count(lock.queue.length) + " are shown." : ".";
  const parts = [lock.waiters ? count(lock.waiters) + " wait here, in this order" + some : "Nobody waits here."];
  if (lock.fair_queue) parts.push(count(lock.fair_queue) + " FAIR waiters of all Leashes are in Redis.");
  return parts.join(" ");
}
