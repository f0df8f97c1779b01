// The page over all runs: sorted, filtered, and live.

import { byId, listen, live, make, number } from "./pieces.js";

const COLUMNS = [
  ["id", "Run", ""],
  ["state", "State", ""],
  ["task", "Task", "extra"],
  ["preset", "Preset", "extra"],
  ["step", "Step", "number"],
  ["loss", "Loss now", "number"],
  ["best", "Best", "number extra"],
  ["hash", "Weights", "extra"],
  ["changed", "Changed", "extra"],
];
const runs = new Map();
const chosen = new Set(); // to be compared
let order = { key: "changed", down: true }, folders = [];

const state = (run) => (run.problem ? "a" : run.live ? "z" : run.step >= run.steps ? "d" : "s");
const keyOf = (run) => (order.key === "state" ? state(run) : run[order.key]);

function compared(a, b) {
  const left = keyOf(a), right = keyOf(b);
  if (left === right) return a.id.localeCompare(b.id, "en", { numeric: true });
  if (left === null || left === "") return 1; // what is unknown stands last, whichever way
  if (right === null || right === "") return -1;
  const sign = typeof left === "string" ? left.localeCompare(right, "en", { numeric: true }) : left - right;
  return order.down ? -sign : sign;
}

function ago(seconds) {
  const gone = Date.now() / 1000 - seconds;
  for (const [size, name] of [[86400, "day"], [3600, "hour"], [60, "minute"]]) {
    const count = Math.floor(gone / size);
    if (count >= 1) return `${count} ${name}${count > 1 ? "s" : ""} ago`;
  }
  return "just now";
}

function line(run) {
  const link = make("a", { href: `/run?id=${encodeURIComponent(run.id)}` }, run.id);
  const tick = make("input", { type: "checkbox", checked: chosen.has(run.id), ariaLabel: `compare ${run.id}` });
  tick.style.minHeight = "auto";
  tick.disabled = Boolean(run.problem);
  tick.onchange = () => { tick.checked ? chosen.add(run.id) : chosen.delete(run.id); showCompare(); };
  tick.onclick = (event) => event.stopPropagation();
  const row = make("tr");
  row.onclick = (event) => { if (!event.target.closest("a, input")) link.click(); };
  const cell = (className, ...children) => row.append(make("td", { className }, ...children));
  cell("", tick, " ", link);
  cell("", live(run));
  if (run.problem) {
    row.append(make("td", { className: "wide problem", colSpan: COLUMNS.length - 2 }, run.problem));
    return row;
  }
  cell("extra", run.task);
  cell("extra", run.preset);
  const bar = make("span", { className: "progress" }, make("i"));
  bar.firstChild.style.width = `${Math.min(100, (100 * run.step) / Math.max(1, run.steps))}%`;
  cell("number", bar, `${run.step.toLocaleString("en")} / ${run.steps.toLocaleString("en")}`);
  cell("number", number(run.loss));
  cell("number extra", number(run.best));
  cell("extra hash", make("code", { title: run.hash ? `sha256:${run.hash}` : "no checkpoint yet" }, run.hash.slice(0, 10) || "–"));
  cell("extra", make("span", { title: run.note }, ago(run.changed) + (run.note ? " ⚠" : "")));
  return row;
}

function show() {
  const words = byId("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const text = (run) => [run.id, run.task, run.preset, run.family, run.hash, run.problem ? "damaged" : run.live ? "live" : ""].join(" ").toLowerCase();
  const found = [...runs.values()].filter((run) => words.every((word) => text(run).includes(word))).sort(compared);
  byId("rows").replaceChildren(...found.map(line));
  byId("where").textContent = `${runs.size} in ${folders.join(", ")}`;
  byId("empty").hidden = found.length > 0;
  if (!found.length) {
    byId("empty").replaceChildren(...(runs.size
      ? [make("p", {}, "No run has these words.")]
      : [make("p", {}, `There is no run in ${folders.join(", ")} yet. Type this, and watch it here:`),
         make("pre", {}, "samebits train checkerboard --preset small")]));
  }
  for (const head of byId("heads").children) {
    head.setAttribute("aria-sort", head.dataset.key === order.key ? (order.down ? "descending" : "ascending") : "none");
  }
  showCompare();
}

function showCompare() {
  const button = byId("compare");
  button.disabled = chosen.size < 2;
  button.textContent = chosen.size < 2 ? "Compare" : `Compare ${chosen.size}`;
}

for (const [key, name, className] of COLUMNS) {
  const button = make("button", { type: "button" }, name);
  button.onclick = () => { order = { key, down: order.key === key ? !order.down : className.startsWith("number") || key === "changed" }; show(); };
  byId("heads").append(make("th", { className, "data-key": key, scope: "col" }, button));
}
byId("filter").oninput = show;
byId("compare").onclick = () => {
  const [first, ...others] = [...chosen].slice(0, 12);
  location.href = `/run?id=${encodeURIComponent(first)}${others.map((one) => `&with=${encodeURIComponent(one)}`).join("")}`;
};
listen("/api/events", {
  all(told) {
    runs.clear();
    for (const run of told.runs) runs.set(run.id, run);
    folders = told.folders;
    show();
  },
  runs(told) {
    for (const run of told.changed) runs.set(run.id, run);
    for (const id of told.gone) { runs.delete(id); chosen.delete(id); }
    show();
  },
}, byId("state"));
setInterval(show, 60_000); // times pass
