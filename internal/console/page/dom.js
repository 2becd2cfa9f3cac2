// Elements and texts. All text gets into the page by textContent, never as HTML.

// el makes an element. Children are elements or texts.
export function el(name, props = {}, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(props)) {
    if (key === "class") e.className = value;
    else if (key.startsWith("on")) e.addEventListener(key.slice(2), value);
    else if (value === true) e.setAttribute(key, "");
    else if (value !== false && value !== undefined) e.setAttribute(key, value);
  }
  e.append(...children);
  return e;
}

// setText writes a text only if it is another one, so that a selection by mouse survives.
export function setText(e, text) {
  text = String(text);
  if (e.textContent !== text) e.textContent = text;
}

// duration is a time in milliseconds for people.
export function duration(ms) {
  const s = Math.max(ms, 0) / 1000;
  if (s < 60) return s.toFixed(s < 10 ? 1 : 0) + " s";
  if (s < 3600) return Math.floor(s / 60) + " min " + Math.floor(s % 60) + " s";
  if (s < 86400) return Math.floor(s / 3600) + " h " + Math.floor(s % 3600 / 60) + " min";
  return Math.floor(s / 86400) + " d " + Math.floor(s % 86400 / 3600) + " h";
}

// short is a time in microseconds for people.
export function short(us) {
  if (!us) return "–";
  if (us < 1000) return us.toFixed(0) + " µs";
  if (us < 1e6) return (us / 1000).toFixed(us < 1e4 ? 1 : 0) + " ms";
  return duration(us / 1000);
}

export function count(n) {
  return Math.round(n).toLocaleString("en-US");
}

export function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (; n >= 1024 && i < units.length - 1; i++) n /= 1024;
  return n.toFixed(i && n < 10 ? 1 : 0) + " " + units[i];
}

export function rate(n) {
  return (n < 10 ? n.toFixed(1) : count(n)) + " /s";
}

export function clock(ms) {
  return new Date(ms).toLocaleTimeString("en-GB");
}

const SVG = "http://www.w3.org/2000/svg";

// sparkline draws numbers as a line. It returns the element and a function that draws others.
export function sparkline(label) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 120 28");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("class", "spark");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", label);
  const line = document.createElementNS(SVG, "polyline");
  svg.append(line);
  const draw = (values) => {
    const top = Math.max(...values, 0) || 1;
    const x = (i) => 120 - (values.length - 1 - i) * 2;
    line.setAttribute("points", values.map((v, i) => x(i) + "," + (26 - v / top * 24).toFixed(1)).join(" "));
  };
  return [svg, draw];
}
