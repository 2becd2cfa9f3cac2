// Dialogs: they show what will be ended before anything happens.

import { el, setText, duration } from "./dom.js";
import { post, mayWrite } from "./api.js";

const dialog = document.getElementById("dialog");

// ask shows a dialog with facts. act is called when the button is pressed; its text is shown.
function ask({ title, warning, facts, label, act, after }) {
  const said = el("p", { class: "said", role: "status" });
  const close = el("button", { class: "plain", onclick: () => dialog.close() }, "Cancel");
  const button = el("button", { class: "danger", onclick: run }, label);
  async function run() {
    button.disabled = true;
    try {
      setText(said, await act());
      button.remove();
      setText(close, "Close");
      close.focus();
    } catch (err) {
      setText(said, err.message);
      button.disabled = false;
    }
    after?.();
  }
  dialog.replaceChildren(
    el("h2", { id: "dialog-title" }, title), el("p", {}, warning),
    el("dl", {}, ...facts.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, String(value))])),
    said, el("div", { class: "buttons" }, close, button));
  dialog.showModal();
  close.focus();
}

// confirmBreak asks before it ends a lock, and shows the holders that it will end.
export function confirmBreak(lock, after) {
  const facts = [["Key", lock.key]];
  for (const h of lock.holds.slice(0, 5)) {
    facts.push(["Holder", h.owner], ["Client", h.client || "unknown"], ["Mode", h.mode]);
    if (h.token) facts.push(["Held for", duration(h.age_ms)], ["Token", h.token]);
  }
  if (lock.holds.length > 5) facts.push(["And", lock.holds.length - 5 + " more holders"]);
  const tokens = lock.holds.map((h) => "&token=" + h.token).join("");
  ask({
    title: "Break this lock?", facts, label: "Break the lock", after,
    warning: "Its holder loses it and is told. If somebody else gets it first, nothing is done.",
    act: async () => (await post("break?" + lock.link + tokens)).said,
  });
}

// confirmKill asks before it ends a client.
export function confirmKill(id, facts, after) {
  if (!mayWrite()) {
    ask({
      title: "Client " + id, facts, label: "", after: null, act: async () => "",
      warning: "To kill it, change the token: use the one of --admin-write-token-file.",
    });
    dialog.querySelector(".danger").remove();
    return;
  }
  ask({
    title: "Kill client " + id + "?", facts, label: "Kill the client", after,
    warning: "Its connection is closed. Its locks run out; they are not released at once.",
    act: async () => (await post("kill?id=" + id)).said,
  });
}

// askToken asks for the token. why says what the server answered.
export function askToken(why, current, use) {
  const input = el("input", { type: "password", autocomplete: "off", "aria-label": "Token", value: current });
  const form = el("form", { method: "dialog" },
    el("h2", { id: "dialog-title" }, "Token"), el("p", {}, why),
    el("p", { class: "note" }, "It is kept in this tab only, until you close it."),
    input, el("div", { class: "buttons" }, el("button", { class: "primary" }, "Use it")));
  form.addEventListener("submit", () => use(input.value.trim()));
  dialog.replaceChildren(form);
  if (!dialog.open) dialog.showModal();
  input.focus();
}
