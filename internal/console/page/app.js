// The frame: which page is shown, the stream, the keyboard and the token.

import { setText, el, duration } from "./dom.js";
import { follow, token, Refused } from "./api.js";
import { holdsView, clientsView, eventsView } from "./views.js";
import { lockView } from "./lock.js";
import { overviewView, Samples } from "./overview.js";
import { askToken } from "./confirm.js";

const main = document.getElementById("main");
const state = document.getElementById("state");
const version = document.getElementById("version");
const dialog = document.getElementById("dialog");
const signOut = document.getElementById("sign-out");

const keptEvents = 1000;
const stream = { samples: new Samples(), events: [], missed: 0, last: 0 };
let view = null;
let opened = false; // the API has answered with this token
let reading = new AbortController();

const pages = {
  overview: () => overviewView(stream), holds: holdsView, clients: clientsView,
  events: () => eventsView(stream), lock: lockView,
};

// show shows the page that the address names.
function show() {
  if (!opened) return;
  const [, name, query] = /^#\/(\w+)(?:\?(.*))?$/.exec(location.hash) || [];
  if (!Object.hasOwn(pages, name || "")) {
    location.replace("#/overview");
    return;
  }
  view?.stop();
  view = pages[name](query || "");
  main.replaceChildren(view.element);
  scrollTo(0, 0);
  for (const a of document.querySelectorAll("nav a")) {
    const current = a.hash === "#/" + name || name === "lock" && a.hash === "#/holds";
    current ? a.setAttribute("aria-current", "page") : a.removeAttribute("aria-current");
  }
}

function say(text, kind) {
  setText(state, text);
  state.className = "pill " + kind;
}

function receive(kind, data) {
  if (kind === "overview") {
    stream.samples.add(data);
    say(data.draining ? "draining" : data.ready ? "ready" : "not ready", data.ready ? "ready" : "unready");
    setText(version, "Leash " + data.version + ", up for " + duration(data.uptime_ms));
    if (!document.hidden) view?.refresh();
  } else if (kind === "locks") {
    const fresh = data.filter((e) => e.number > stream.last);
    if (!fresh.length) return;
    stream.events = stream.events.concat(fresh).slice(-keptEvents);
    stream.last = fresh.at(-1).number;
    if (!document.hidden && location.hash.startsWith("#/events")) view?.changed?.();
  } else if (kind === "missed") {
    stream.missed += data;
  }
}

const pauses = [500, 1000, 2000, 5000];

// read follows the stream, and begins again when it ends.
async function read() {
  for (let failures = 0; ; failures++) {
    const signal = reading.signal;
    try {
      await follow(signal, (kind, data) => {
        failures = 0;
        if (!opened) {
          opened = true;
          signOut.hidden = !token.get();
          show();
        }
        receive(kind, data);
      });
    } catch (err) {
      if (err instanceof Refused && (err.status === 401 || err.status === 403)) {
        refused(err);
        return;
      }
      if (signal.aborted) return;
      if (!opened) main.replaceChildren(el("p", { class: "problem" }, err.message));
    }
    if (reading.signal !== signal) return;
    say("no connection", "unready");
    stream.last = 0;
    await new Promise((done) => setTimeout(done, pauses[Math.min(failures, pauses.length - 1)]));
  }
}

function refused(err) {
  opened = false;
  view?.stop();
  view = null;
  main.replaceChildren();
  say("no access", "unready");
  if (err.status === 403) {
    main.replaceChildren(el("p", { class: "problem" }, err.message));
    return;
  }
  const wrong = token.get() !== "";
  token.set("");
  askToken(wrong ? "This token is not right." : "Leash asks for the token of --admin-token-file.", "", use);
}

function use(text) {
  token.set(text);
  restart();
}

function restart() {
  reading.abort();
  reading = new AbortController();
  stream.events = [];
  stream.last = 0;
  opened = false;
  read();
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || dialog.open || !view) return;
  const typing = event.target.matches("input, textarea, select");
  const actions = {
    "/": () => view.search?.(), ArrowDown: () => view.move?.(1), ArrowUp: () => view.move?.(-1),
    Escape: () => view.escape?.() || back(event.target), Enter: () => view.enter?.(),
    ...(typing ? {} : {
      j: () => view.move?.(1), k: () => view.move?.(-1),
      ArrowRight: () => view.turn?.(1), ArrowLeft: () => view.turn?.(-1),
    }),
  };
  if (typing && event.key === "/" || !actions[event.key]) return;
  if (event.key === "Enter" && event.target.closest("a, button")) return;
  event.preventDefault();
  actions[event.key]();
}

// back leaves the search, or the page of a lock.
function back(target) {
  if (target.matches("input")) target.blur();
  else if (location.hash.startsWith("#/lock")) location.hash = "#/holds";
}

addEventListener("hashchange", show);
addEventListener("keydown", onKey);
document.addEventListener("visibilitychange", () => { if (!document.hidden) view?.refresh(); });
signOut.addEventListener("click", () => askToken("Give another token.", "", use));
dialog.addEventListener("cancel", (event) => { if (!opened) event.preventDefault(); });
read();
