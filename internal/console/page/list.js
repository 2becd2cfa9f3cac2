// A searched and paged list, as holds and clients are.

import { el, setText, count } from "./dom.js";
import { table } from "./table.js";
import { get } from "./api.js";

// states are the searches of the lists, so that one is as it was after a look at a lock.
const states = {};

// listView makes a page with a search, a table and pages. path is that of the API, name the list in
// its answers. lookup, if there is one, returns an address for a search that finds nothing.
export function listView({ path, name, title, columns, open, order = "", searchHint, empty, lookup }) {
  const state = states[path] ??= { search: "", page: 1, order };
  let found = 0, pageSize = 50, asked = 0, next = 0, stopped = false;

  const search = el("input", {
    type: "search", placeholder: searchHint, "aria-label": searchHint, maxlength: 256, autocomplete: "off",
    spellcheck: "false", value: state.search,
  });
  const total = el("span", { class: "total", role: "status" });
  const where = el("span");
  const back = el("button", { class: "plain", onclick: () => turn(-1) }, "‹ Previous");
  const forth = el("button", { class: "plain", onclick: () => turn(1) }, "Next ›");
  const reason = el("span"), ask = el("a", {}, "Ask Redis for exactly this key");
  const nothing = el("p", { class: "empty", hidden: true }, reason, ask);
  const problem = el("p", { class: "problem", role: "alert", hidden: true });
  const rows = table({ columns, caption: title, open, onSort: sortBy });
  const element = el("section", {},
    el("div", { class: "bar" }, el("h1", {}, title), search, total), problem, rows.element, nothing,
    el("div", { class: "pages" }, back, where, forth));

  let typing = 0;
  search.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => { state.search = search.value; state.page = 1; load(); }, 200);
  });

  const pages = () => Math.max(Math.ceil(found / pageSize), 1);
  function turn(step) {
    state.page = Math.max(1, Math.min(pages(), state.page + step));
    load();
  }
  function sortBy(key) {
    state.order = state.order === key ? "-" + key : key;
    state.page = 1;
    load();
  }

  async function load() {
    const mine = ++asked;
    const query = new URLSearchParams({ search: state.search, page: state.page });
    if (order) query.set("sort", state.order);
    try {
      const answer = await get(path + "?" + query);
      if (mine !== asked || stopped) return;
      found = answer.found;
      pageSize = answer.page_size;
      next = performance.now() + 20 * (answer.took_ms || 0); // a large search is repeated less often
      show(answer[name]);
    } catch (err) {
      if (mine === asked && !stopped) fail(err);
    }
  }

  function show(list) {
    problem.hidden = true;
    if (!list.length && state.page > 1 && found) {
      state.page = pages();
      load();
      return;
    }
    rows.fill(list);
    rows.sorted(state.order);
    rows.element.hidden = !list.length;
    nothing.hidden = list.length > 0;
    setText(reason, state.search ? "Nothing fits the search. " : empty);
    ask.hidden = !state.search || !lookup;
    if (lookup) ask.href = lookup(state.search);
    setText(total, count(found) + (state.search ? " found" : " in all"));
    setText(where, "page " + count(state.page) + " of " + count(pages()));
    back.disabled = state.page <= 1;
    forth.disabled = state.page >= pages();
  }

  function fail(err) {
    setText(problem, err.message);
    problem.hidden = false;
    next = performance.now() + 2000;
  }

  load();
  return {
    element,
    refresh() {
      if (performance.now() >= next) load();
    },
    stop() { stopped = true; clearTimeout(typing); },
    search: () => search.focus(),
    move: rows.move,
    enter: rows.openSelected,
    turn,
    escape() {
      if (!state.search && !search.value) return false;
      search.value = state.search = "";
      state.page = 1;
      search.blur();
      load();
      return true;
    },
  };
}
