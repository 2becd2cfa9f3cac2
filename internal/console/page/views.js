// The lists: holds, clients and events.

import { el, setText, duration, clock, bytes, count } from "./dom.js";
import { table, text, link, ttlBar } from "./table.js";
import { listView } from "./list.js";
import { confirmKill } from "./confirm.js";

const tooLong = "the key is too long for this page";
const go = (href) => { if (href) location.hash = href; };
export const lockHref = (row) => row.link ? "#/lock?" + row.link : "";

const database = (row) => row.db ? " · db " + row.db : "";

export function holdsView() {
  return listView({
    path: "holds", name: "holds", title: "Holds", order: "-waiters",
    searchHint: "Search key, owner or client", empty: "No locks are held through this Leash.",
    open: (row) => go(lockHref(row)), lookup: (key) => "#/lock?key=" + encodeURIComponent(key),
    columns: [
      { title: "Key", sort: "key", class: "wide",
        fill: (td, row) => link(td, row.key + database(row), lockHref(row), row.link ? row.key : tooLong) },
      { title: "Mode", sort: "mode", fill: text((row) => row.mode) },
      { title: "Owner", class: "name", fill: text((row) => row.owner) },
      { title: "Client", class: "name", fill: text((row) => row.client) },
      { title: "Age", sort: "age", class: "number", fill: text((row) => duration(row.age_ms)) },
      { title: "TTL", sort: "ttl", fill: ttlBar },
      { title: "Waiters", sort: "waiters", class: "number", fill: waiters },
    ],
  });
}

function waiters(td, row) {
  setText(td, row.waiters ? count(row.waiters) : "–");
  td.classList.toggle("some", row.waiters > 0);
}

export function clientsView() {
  const view = listView({
    path: "clients", name: "clients", title: "Clients",
    searchHint: "Search address, name, user, library or command", empty: "No clients are connected.",
    open: (row) => confirmKill(row.id, [["Client", row.addr + " " + row.name], ["Holds", row.holds]], view.refresh),
    columns: [
      { title: "Id", class: "number", fill: text((row) => row.id) },
      { title: "Address", class: "wide", fill: text((row) => row.addr) },
      { title: "Name", class: "name", fill: text((row) => row.name || "–") },
      { title: "User", fill: text((row) => row.user) },
      { title: "Library", fill: text((row) => row.library || "–") },
      { title: "Last command", fill: text((row) => row.command === "NULL" ? "–" : row.command) },
      { title: "Connected", class: "number", fill: text((row) => duration(row.age_ms)) },
      { title: "Idle", class: "number", fill: text((row) => duration(row.idle_ms)) },
      { title: "Holds", class: "number", fill: text((row) => row.holds ? count(row.holds) : "–") },
      { title: "Output", class: "number", fill: text((row) => row.output_bytes ? bytes(row.output_bytes) : "–") },
    ],
  });
  return view;
}

const eventColumns = (withKey) => [
  { title: "Time", fill: text((row) => clock(row.at_ms)) },
  { title: "Event", fill: eventKind },
  ...(withKey ? [{ title: "Key", class: "wide",
    fill: (td, row) => link(td, row.key + database(row), lockHref(row), row.link ? row.key : tooLong) }] : []),
  { title: "Mode", fill: text((row) => row.mode) },
  { title: "Owner", class: "name", fill: text((row) => row.owner) },
  { title: "Client", class: "name", fill: text((row) => row.client) },
  { title: "Held", class: "number", fill: text((row) => row.kind === "granted" ? "–" : duration(row.held_ms)) },
];

function eventKind(td, row) {
  const label = row.reason ? row.kind + ": " + row.reason : row.kind;
  let tag = td.querySelector("span");
  if (!tag) {
    tag = el("span");
    td.replaceChildren(tag);
  }
  tag.className = "tag " + row.kind;
  setText(tag, label);
}

// eventTable is a table of events. Those of one lock need no key.
export function eventTable(caption, open) {
  return table({ columns: eventColumns(Boolean(open)), caption, open });
}

const shownEvents = 200;

// eventsView shows what the stream has brought. events is the list that app.js keeps.
export function eventsView(stream) {
  const rows = eventTable("Events", (row) => go(lockHref(row)));
  const pause = el("button", { class: "plain", "aria-pressed": "false", onclick: toggle }, "Pause");
  const missed = el("span", { class: "total", role: "status" });
  const nothing = el("p", { class: "empty" }, "Nothing has happened to a lock yet.");
  const element = el("section", {}, el("div", { class: "bar" }, el("h1", {}, "Events"), missed, pause),
    el("p", { class: "note" }, "Losses are always kept. Grants and releases are noted while a console is open."),
    rows.element, nothing);
  let paused = false;
  function toggle() {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    setText(pause, paused ? "Go on" : "Pause");
    refresh();
  }
  function refresh() {
    setText(missed, stream.missed ? count(stream.missed) + " events were too many to show" : "");
    if (paused) return;
    const list = stream.events.slice(-shownEvents).reverse();
    rows.fill(list);
    rows.element.hidden = !list.length;
    nothing.hidden = list.length > 0;
  }
  refresh();
  return { element, refresh, changed: refresh, stop() {}, move: rows.move, enter: rows.openSelected };
}
