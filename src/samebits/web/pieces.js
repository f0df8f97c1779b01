// Small things that all pages use.

export const byId = (id) => document.getElementById(id);

/** An element with attributes, properties and children; text is text, never markup. */
export function make(tag, attributes = {}, ...children) {
  const found = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name in found && name !== "list") found[name] = value;
    else if (value !== null && value !== undefined) found.setAttribute(name, value);
  }
  found.append(...children.filter((one) => one !== null));
  return found;
}

export function number(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(2);
  return size >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(4)));
}

/** JSON of our own server; an error has its words. */
export async function ask(path, options) {
  const answer = await fetch(path, options);
  const content = await answer.json().catch(() => null);
  if (!answer.ok) throw new Error(content?.error?.message ?? `the server answered ${answer.status}`);
  return content;
}

export function live(run) {
  if (run.problem) return make("span", { className: "problem" }, "damaged");
  if (run.live) return make("span", { className: "live" }, "live");
  return make("span", { className: "soft" }, run.step >= run.steps ? "done" : "stopped");
}

/** Listens until the page goes; the browser comes back by itself when the server was away. */
export function listen(path, handlers, state) {
  const source = new EventSource(path);
  for (const [kind, handler] of Object.entries(handlers)) {
    source.addEventListener(kind, (event) => handler(JSON.parse(event.data)));
  }
  source.onopen = () => { state.textContent = ""; };
  source.onerror = () => { state.textContent = "The server is away; waiting for it …"; };
  addEventListener("pagehide", () => source.close());
  return source;
}
