// Type an expression, and see the network rewrite it: a drawn tree a step, each judged by the rules.

import { ask, make } from "./pieces.js";

const APART = { x: 62, y: 52 }, NODE = { height: 30, letter: 8.4 };

function svg(tag, attributes, ...children) {
  const found = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) found.setAttribute(name, value);
  found.append(...children);
  return found;
}

/** A tree at the places the server gave its nodes. */
export function drawTree({ labels, parents, places }) {
  const width = Math.max(...places.map(([x]) => x)) * APART.x, depth = Math.max(...places.map(([, y]) => y)) * APART.y;
  const edge = 44, found = svg("svg", { viewBox: `${-edge} -24 ${width + 2 * edge} ${depth + 48}`, role: "img", "aria-label": labels.join(" ") });
  found.style.maxWidth = `${(width + 2 * edge) * 1.15}px`;
  const at = (node) => [places[node][0] * APART.x, places[node][1] * APART.y];
  parents.forEach((parent, node) => {
    if (parent < 0) return;
    const [x1, y1] = at(parent), [x2, y2] = at(node);
    found.append(svg("line", { class: "edge", x1, y1, x2, y2 }));
  });
  labels.forEach((label, node) => {
    const [x, y] = at(node), wide = Math.max(30, label.length * NODE.letter + 18);
    const text = svg("text", { x, y: y + 5, "text-anchor": "middle", "font-size": 14 }, label);
    const box = svg("rect", { x: x - wide / 2, y: y - NODE.height / 2, width: wide, height: NODE.height, rx: 15 });
    found.append(svg("g", { class: parents.includes(node) ? "operator" : "leaf" }, box, text));
  });
  return found;
}

const WORDS = { right: "✓ as the rules do", wrong: "✗ not what the rules do" };

export function mountRewriting(parent, run, seen) {
  parent.hidden = false;
  const input = make("input", { className: "grow", id: "expression", value: seen.details.example ?? "", spellcheck: false, autocomplete: "off" });
  const which = make("select", { ariaLabel: "checkpoint" }, ...[...seen.checkpoints].reverse().map((step) => make("option", { value: String(step) }, `step ${step.toLocaleString("en")}`)));
  const form = make("form", { className: "bar" }, make("label", { className: "grow" }, "Expression", input), make("label", {}, "Checkpoint", which), make("button", { className: "main" }, "Rewrite"));
  const told = make("p", { role: "status", id: "judged" }), steps = make("div", { className: "steps", id: "steps" });
  parent.append(make("h2", {}, "Let it rewrite"), form, told, steps);
  form.onsubmit = async (event) => {
    event.preventDefault();
    told.className = "soft";
    told.textContent = "rewriting …";
    try {
      const asked = new URLSearchParams({ run, expression: input.value, checkpoint: which.value });
      const found = await ask(`/api/rewrite?${asked}`);
      told.textContent = found.judged;
      told.className = found.judged.startsWith("right") ? "" : "problem";
      steps.replaceChildren(...found.steps.map((step, index) => make("figure", {}, make("figcaption", {},
        make("b", {}, index ? `Step ${index}` : "Input"), " ", step.verdict ? make("span", { className: step.verdict }, WORDS[step.verdict]) : "",
        make("br"), make("code", {}, step.text), step.instead ? make("div", { className: "soft" }, "the rules: ", make("code", {}, step.instead)) : null), drawTree(step))));
    } catch (error) {
      told.className = "problem";
      told.textContent = error.message;
      steps.replaceChildren();
    }
  };
}
