// A table whose rows stay when their contents change, with a row that the keyboard has selected.

import { el, setText, duration } from "./dom.js";

// table makes a table. A column has a title, a class, a key to sort by, and fill(cell, row). open is
// called with a row that was clicked or that Enter was pressed on.
export function table({ columns, caption, open, onSort }) {
  const body = el("tbody");
  const heads = columns.map((c) => {
    const th = el("th", { scope: "col", class: c.class || "" });
    th.append(c.sort ? el("button", { class: "sort", onclick: () => onSort(c.sort) }, c.title) : c.title);
    return th;
  });
  const element = el("table", {}, el("caption", {}, caption), el("thead", {}, el("tr", {}, ...heads)), body);
  let rows = [];
  let selected = -1;

  const mark = () => [...body.rows].forEach((tr, i) => tr.classList.toggle("selected", i === selected));
  const newRow = () => {
    const tr = el("tr", {}, ...columns.map((c) => el("td", { class: c.class || "", "data-label": c.title })));
    tr.addEventListener("click", (event) => {
      if (!event.target.closest("a, button") && !String(getSelection())) open?.(rows[[...body.rows].indexOf(tr)]);
    });
    return tr;
  };

  return {
    element,
    fill(list) {
      rows = list;
      while (body.rows.length > list.length) body.lastElementChild.remove();
      while (body.rows.length < list.length) body.append(newRow());
      list.forEach((row, i) => columns.forEach((c, n) => c.fill(body.rows[i].cells[n], row)));
      selected = Math.min(selected, list.length - 1);
      mark();
    },
    sorted(order) {
      columns.forEach((c, i) => {
        if (!c.sort) return;
        const on = order.replace("-", "") === c.sort;
        heads[i].setAttribute("aria-sort", !on ? "none" : order[0] === "-" ? "descending" : "ascending");
      });
    },
    move(step) {
      if (!rows.length) return;
      selected = Math.max(0, Math.min(rows.length - 1, selected + step));
      mark();
      body.rows[selected].scrollIntoView({ block: "nearest" });
    },
    openSelected() {
      if (selected >= 0 && open) open(rows[selected]);
      return selected >= 0;
    },
  };
}

// text fills a cell with a text.
export const text = (of) => (cell, row) => setText(cell, of(row));

// link fills a cell with a link; without an address, with a text.
export function link(cell, label, href, why = "") {
  let a = cell.querySelector("a, span");
  if (!a || (a.tagName === "A") !== Boolean(href)) {
    a = el(href ? "a" : "span");
    cell.replaceChildren(a);
  }
  setText(a, label);
  if (href) a.setAttribute("href", href);
  a.title = why || label;
}

// ttlBar fills a cell with a bar that shrinks until the next answer.
export function ttlBar(cell, hold) {
  let bar = cell.querySelector(".ttl");
  if (!bar) {
    bar = el("div", { class: "ttl" }, el("div", { class: "track" }, el("div", { class: "left" })), el("span"));
    cell.replaceChildren(bar);
  }
  bar.ends = performance.now() + hold.left_ms;
  bar.total = Math.max(hold.ttl_ms, hold.left_ms, 1);
  bar.classList.toggle("lease", hold.lease);
  bar.title = hold.lease ? "a lease: it is not renewed" : "renewed by the watchdog";
  drawBar(bar);
}

function drawBar(bar) {
  const left = Math.max(bar.ends - performance.now(), 0);
  const share = Math.min(left / bar.total, 1);
  bar.querySelector(".left").style.width = (share * 100).toFixed(1) + "%";
  bar.classList.toggle("low", share < 1 / 4);
  setText(bar.querySelector("span"), duration(left));
}

const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
setInterval(() => document.querySelectorAll(".ttl").forEach(drawBar), calm ? 1000 : 200);
