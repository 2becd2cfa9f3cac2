// Requests to the API, with the token of this tab.

const tokenName = "leash-token";
let canWrite = false;

export const token = {
  get: () => sessionStorage.getItem(tokenName) || "",
  set: (text) => text ? sessionStorage.setItem(tokenName, text) : sessionStorage.removeItem(tokenName),
};

// mayWrite says whether the token allows to break locks and to kill clients.
export function mayWrite() {
  return canWrite;
}

export class Refused extends Error {
  constructor(status, text) {
    super(text || "status " + status);
    this.status = status;
  }
}

async function request(path, options = {}) {
  const headers = token.get() ? { Authorization: "Bearer " + token.get() } : {};
  const answer = await fetch(path, { ...options, headers, cache: "no-store", credentials: "omit" });
  if (!answer.ok) throw new Refused(answer.status, (await answer.text()).trim());
  canWrite = (answer.headers.get("Leash-Rights") || "").includes("write");
  return answer;
}

export async function get(path) {
  return (await request("api/" + path)).json();
}

export async function post(path) {
  return (await request("api/" + path, { method: "POST" })).json();
}

// follow reads the events until the stream ends. It is a fetch because an EventSource cannot send
// the token.
export async function follow(signal, onMessage) {
  const answer = await request("api/events", { signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const message = /^event: (\w+)\ndata: (.*)$/.exec(part);
      if (message) onMessage(message[1], JSON.parse(message[2]));
    }
  }
}
