// The page of one run: its curves as they grow, other runs laid over them, and its model to play with or talk to.

import { Chart } from "./curves.js";
import { mountGpt } from "./gpt.js";
import { ask, byId, listen, live, make, number } from "./pieces.js";
import { mountPlayground } from "./playground.js";
import { mountRewriting } from "./rewriting.js";

const asked = new URLSearchParams(location.search), id = asked.get("id") ?? "";
let shown = [id, ...asked.getAll("with")].slice(0, 12), source = null, seen = null;
const charts = new Map(); // by what they show: "loss", or a column

function chartOf(column) {
  const name = column.includes("loss") ? "loss" : column;
  if (!charts.has(name)) charts.set(name, new Chart(byId("charts"), name.replaceAll("_", " ")));
  return charts.get(name);
}

function put(told, more) {
  const colour = shown.indexOf(told.run);
  if (colour < 0) return;
  const columns = Object.entries(told.columns).sort(([a], [b]) => b.includes("loss") - a.includes("loss"));
  let losses = 0;
  for (const [column, points] of columns) {
    const dash = column.includes("loss") ? (columnDash[column] ??= losses++ && Object.keys(columnDash).length) : 0;
    const label = (shown.length > 1 ? `${told.run} ` : "") + column.replaceAll("_", " ");
    chartOf(column).put(`${told.run}\n${column}`, label, shown.length > 1 ? colour : dash, shown.length > 1 ? dash : 0, points, more);
  }
}
const columnDash = {};

function facts(run) {
  byId("name").textContent = run.id;
  document.title = `${run.id} · samebits`;
  const fact = (name, ...value) => make("div", {}, make("dt", {}, name), make("dd", {}, ...value));
  byId("facts").replaceChildren(
    fact("State", live(run)),
    fact("Task", run.task || "–"),
    fact("Preset", run.preset || "–"),
    fact("Step", `${run.step.toLocaleString("en")} of ${run.steps.toLocaleString("en")}`),
    fact((run.loss_name || "loss").replaceAll("_", " "), number(run.loss)),
    fact("Best", run.best === null ? "–" : `${number(run.best)} at step ${run.best_step.toLocaleString("en")}`),
    fact("Parameters", seen?.parameters?.toLocaleString("en") ?? "–"),
    ...Object.entries(seen?.details ?? {}).map(([name, value]) => fact(name, typeof value === "number" ? value.toLocaleString("en") : String(value))),
    fact("Weights", make("code", { title: run.hash && `sha256:${run.hash}` }, run.hash ? `sha256:${run.hash.slice(0, 16)}…` : "–")),
  );
  byId("problem").hidden = !run.problem;
  byId("problem").textContent = run.problem;
  byId("note").hidden = !run.note;
  byId("note").textContent = run.note;
}

function legend() {
  byId("legend").replaceChildren(...(shown.length < 2 ? [] : shown).map((name, index) => {
    const mark = make("i");
    mark.style.borderColor = `var(--line-${index % 6})`;
    const away = make("button", { title: `take ${name} away`, type: "button" }, "×");
    away.style.cssText = "min-height:24px;padding:0 7px;margin-left:6px";
    away.onclick = () => show(shown.filter((one) => one !== name));
    return make("span", {}, mark, name, index ? away : null);
  }));
}

/** Other runs over this one: the address keeps them. */
function show(names) {
  shown = names;
  const address = new URLSearchParams([["id", id], ...names.slice(1).map((name) => ["with", name])]);
  history.replaceState(null, "", `/run?${address}`);
  for (const chart of charts.values()) chart.lines.clear(), chart.draw();
  legend();
  hear();
}

function hear() {
  source?.close();
  const wanted = new URLSearchParams(shown.map((name) => ["run", name]));
  source = listen(`/api/events?${wanted}`, {
    run(told) {
      if (told.id !== id) return;
      const grew = seen && told.hash !== seen.run.hash;
      facts(told);
      if (grew) load(false);
    },
    curve: (told) => put(told, false),
    rows: (told) => put(told, true),
    problem(told) { byId("problem").hidden = false; byId("problem").textContent = `${told.run}: ${told.problem}`; },
  }, byId("state"));
}

function showDetails(found) {
  byId("next").hidden = !found.commands.length;
  byId("commands").replaceChildren(...found.commands.map((command) => {
    const copy = make("button", { type: "button", ariaLabel: `copy ${command}` }, "Copy");
    copy.onclick = async () => {
      await navigator.clipboard.writeText(command);
      copy.textContent = "Copied";
      setTimeout(() => { copy.textContent = "Copy"; }, 1500);
    };
    return make("li", {}, make("code", {}, command), copy);
  }));
  byId("config").hidden = !found.config && !found.config_file;
  byId("keys").replaceChildren(...(found.config
    ? Object.entries(found.config).map(([key, value]) => make("div", {}, make("dt", {}, key), make("dd", {}, Array.isArray(value) && value.length > 24 ? `${value.length} numbers` : JSON.stringify(value))))
    : [make("pre", {}, found.config_file ?? "")]));
  byId("sizes").replaceChildren(...(found.sizes ?? []).map(([name, shape]) => make("li", {}, `${name} ${shape.join(" × ")}`)));
  byId("shown").hidden = !found.pictures.length;
  byId("pictures").replaceChildren(...found.pictures.map((name) => {
    const address = `/api/picture?run=${encodeURIComponent(id)}&name=${encodeURIComponent(name)}`;
    return make("figure", {}, make("a", { href: address }, make("img", { src: address, alt: name, loading: "lazy" })), make("figcaption", {}, name));
  }));
}

let playing = null, mounted = false;

async function play(step) {
  const box = byId("playground"), told = byId("loading");
  told.textContent = "Looking for its smallest circuit …";
  try {
    const automaton = await ask(`/api/automaton?run=${encodeURIComponent(id)}&checkpoint=${step}`);
    if (byId("checkpoint").dataset.step !== String(step)) return; // slid on meanwhile
    playing?.destroy?.();
    box.replaceChildren();
    playing = mountPlayground(box, automaton);
    told.textContent = "";
  } catch (error) {
    told.textContent = error.message;
  }
}

function slider(steps) {
  const input = byId("checkpoint"), at = byId("at"), last = input.value === input.max;
  input.max = String(steps.length - 1);
  if (!mounted || last) input.value = input.max;
  const choose = () => {
    const step = steps[Number(input.value)];
    at.textContent = `step ${step.toLocaleString("en")}`;
    if (input.dataset.step === String(step)) return;
    input.dataset.step = String(step);
    clearTimeout(slider.waiting);
    slider.waiting = setTimeout(() => play(step), 150);
  };
  input.oninput = choose;
  choose();
}

async function load(first) {
  try {
    seen = await ask(`/api/run?id=${encodeURIComponent(id)}`);
  } catch (error) {
    byId("problem").hidden = false;
    byId("problem").textContent = error.message;
    byId("name").textContent = "No such run";
    byId("curves").hidden = true;
    return;
  }
  facts(seen.run);
  showDetails(seen);
  if (seen.can === "automaton" && seen.checkpoints.length) {
    byId("automaton").hidden = false;
    slider(seen.checkpoints);
  }
  if (!mounted && seen.can === "text") mountGpt(byId("talk"), id, seen);
  if (!mounted && seen.can === "rewriting") mountRewriting(byId("rewrite"), id, seen);
  mounted ||= Boolean(seen.can);
  if (first) hear();
}

byId("log").onclick = () => {
  const on = byId("log").getAttribute("aria-pressed") !== "true";
  byId("log").setAttribute("aria-pressed", String(on));
  for (const chart of charts.values()) { chart.log = on; chart.draw(); }
};
byId("other").onfocus = async () => {
  const found = await ask("/api/runs");
  const names = found.runs.filter((run) => !run.problem && !shown.includes(run.id)).map((run) => run.id).sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  byId("other").replaceChildren(make("option", { value: "" }, "a run …"), ...names.map((name) => make("option", { value: name }, name)));
};
byId("other").onchange = () => {
  const name = byId("other").value;
  if (name && shown.length < 12) show([...shown, name]);
  byId("other").value = "";
};
legend();
load(true);
