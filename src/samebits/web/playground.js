// The playground: an automaton on a canvas, with its controls and its circuit.
//
// mountPlayground(element, automaton, {engine}) fills the element and returns {world, …, destroy()}. `automaton` is the
// record of samebits.families.logic_ca.page.automaton_of; engine is "wasm", "js" or nothing: whichever the browser can.

import { World } from "./engine.js";

export function mountPlayground(element, automaton, { engine = null } = {}) {
  const world = new World(automaton, engine);
  const canvas = document.createElement("canvas");
  element.replaceChildren(canvas);
  return { world, destroy() { element.replaceChildren(); } };
}
