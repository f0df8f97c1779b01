// What the playground is made of: its HTML. Every element that the script looks for has data-part.

import { LEAST_SIDE, MOST_SIDE } from "./engine.js";

const dot = (x, y) => `<circle cx="${x}" cy="${y}" r="1.7"/>`;
const ICONS = {
  play: `<path class="for-play" d="M7 4.5v15l12-7.5z"/>
    <path class="for-pause" d="M6 5h4.5v14H6zM13.5 5H18v14h-4.5z"/>`,
  step: '<path d="M5 5v14l9-7zM16 5h3v14h-3z"/>',
  reset: '<path d="M12 5V1.8L6.6 6.2 12 10.6V7.4a5.1 5.1 0 1 1-5.1 5.1H4.5A7.5 7.5 0 1 0 12 5z"/>',
  random: `<rect x="3.2" y="3.2" width="17.6" height="17.6" rx="3" fill="none" stroke="currentColor" stroke-width="2"/>
    ${dot(8.2, 8.2)}${dot(15.8, 8.2)}${dot(12, 12)}${dot(8.2, 15.8)}${dot(15.8, 15.8)}`,
  paint: `<path d="M20.7 5.6 18.4 3.3a1.2 1.2 0 0 0-1.7 0L9 11l4 4 7.7-7.7a1.2 1.2 0 0 0 0-1.7z
    M7.9 12.6c-1.9 0-3.4 1.5-3.4 3.4 0 1.5-1.2 2.2-2 2.2.9 1.3 2.5 2.3 4.2 2.3a4.6 4.6 0 0 0 4.6-4.5z"/>`,
  erase: `<path d="m15.7 4.3-11 11a2 2 0 0 0 0 2.8l2 2H21v-2.2h-8.4l6.9-6.9a2 2 0 0 0 0-2.8l-1-1-1-1a2 2 0 0 0-1.8.1z
    M9.6 17.9H7.7l-1.4-1.4 4.1-4.1 3.3 3.3z"/>`,
  damage: '<path d="M13 2 4.5 13.5H11L9.8 22 19 9.8h-6.6z"/>',
  seed: `<path d="M12 2a5 5 0 0 1 5 5 5 5 0 0 1-3.8 4.8V14c2-2.3 4.4-3 6.8-2.8-.2 4-2.7 6.6-6.8 6.8v4h-2.4v-6
    C6.7 15.8 4.2 13.2 4 9.2c2.4-.2 4.8.5 6.6 2.5A5 5 0 0 1 12 2z"/>`,
};
const TOOLS = {
  paint: ["Paint", "set cells of the channel shown (P)"],
  erase: ["Erase", "clear cells of the channel shown (E, or the right button)"],
  damage: ["Damage", "clear a block in every channel (D)"],
  seed: ["Seed", "plant a full cell: every channel 1 (S)"],
};
const SIDES = [16, 32, 64, 128, 256, 512, 1024];

const escaped = (text) => text.replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`);
const icon = (name) => `<svg viewBox="0 0 24 24" aria-hidden="true">${ICONS[name]}</svg>`;
const button = (part, text, hint, extra = "") =>
  `<button type="button" data-part="${part}" title="${hint}" ${extra}>${icon(part)}<span>${text}</span></button>`;
const grid = (height, width) => option(`${height}x${width}`, `${height} × ${width}`);
const sides = `min="${LEAST_SIDE}" max="${MOST_SIDE}" inputmode="numeric"`;
const option = (value, text, chosen) => `<option value="${value}"${chosen ? " selected" : ""}>${text}</option>`;

// `world` is at the size and in the engine that the page begins with.
export function bodyOf(automaton, world) {
  const { channels, visible, gates, height, width, steps } = automaton;
  const coloured = visible === 3, several = channels.length > 1;
  const tools = Object.keys(TOOLS).filter((name) => name !== "seed" || ["centre", "any"].includes(automaton.start));
  const shown = channels.map((channel) => option(channel, `channel ${channel}`, !coloured && channel === 0));
  if (coloured) shown.unshift(option("picture", "picture", true));
  const sizes = SIDES.filter((side) => side !== height || side !== width).map((side) => grid(side, side));
  const outputs = channels.map((channel) => option(channel, `channel ${channel}`, channel === 0));
  const alive = ["random", "any"].includes(automaton.start);
  const told = alive ? "Paint on it, hurt it, and watch."
    : `It was trained to be a picture after ${steps} steps, and pauses there.`;
  const about = automaton.about.map((line) => `<li>${escaped(line)}</li>`).join("");
  return `
<header>
  <h1>${escaped(automaton.name.replaceAll("_", " "))}</h1>
  <p>A learned automaton: each cell sees its eight neighbours and itself and runs the same
    <b>${gates.length} logic ${gates.length === 1 ? "gate" : "gates"}</b>.
    ${told}</p>
</header>
<div class="layout">
<section class="world" aria-label="cells">
  <div class="stage" data-part="stage"></div>
  <div class="bar transport" role="toolbar" aria-label="time">
    ${button("play", "Play", "play or pause (space)", 'class="main" aria-pressed="false"')}
    ${button("step", "Step", "one step (.)")}
    ${button("reset", "Reset", "the start it was trained from (R)")}
    ${button("random", "Random", "random cells, of the next seed (N)")}
    <label class="slide"><span>Speed</span>
      <input type="range" data-part="speed" min="0" max="13" value="${alive ? 4 : 2}">
      <output data-part="pace"></output></label>
  </div>
  <div class="bar" role="toolbar" aria-label="tools">
    <fieldset class="tools"><legend>tool</legend>
      ${tools.map((name) => `<label title="${TOOLS[name][1]}"><input type="radio" name="tool" value="${name}">
        ${icon(name)}<span>${TOOLS[name][0]}</span></label>`).join("")}
    </fieldset>
    <label class="slide"><span>Brush</span>
      <input type="range" data-part="size" min="1" max="48">
      <output data-part="extent"></output></label>
  </div>
  <dl class="facts">
    <div><dt>step</dt><dd data-part="time">0</dd></div>
    <div><dt>cell updates a second</dt><dd data-part="updates">–</dd></div>
    <div><dt>engine</dt><dd data-part="engine"></dd></div>
  </dl>
</section>
<section class="inside" aria-label="circuit">
  <div class="title"><h2>Inside one cell</h2><output data-part="inspected"></output></div>
  <div class="drawing" data-part="circuit" tabindex="0" role="region"
    aria-label="the circuit, which can be scrolled"></div>
  <p class="under"><label${several ? "" : " hidden"}>next state of
      <select data-part="output">${outputs.join("")}</select></label>
    <span><output data-part="gates"></output>; a circle inverts an input</span></p>
</section>
<section class="settings" aria-label="settings">
  <h2>Settings</h2>
  <div class="fields">
    <label>Grid <select data-part="grid">
      ${grid(height, width)}${sizes.join("")}${option("", "another size")}</select></label>
    <label>Rows <input type="number" data-part="height" ${sides} value="${height}"></label>
    <label>Columns <input type="number" data-part="width" ${sides} value="${width}"></label>
    <label${several ? "" : " hidden"}>Show <select data-part="channel">${shown.join("")}</select></label>
    <label>Outside the grid <select data-part="boundary">
      ${option("periodic", "the other side", world.periodic)}
      ${option("zeros", "zeros", !world.periodic)}</select></label>
    <label>Cells update <select data-part="update">
      ${option("synchronous", "all at once", world.rate >= 1)}
      ${option("asynchronous", "by chance", world.rate < 1)}</select></label>
    <label data-part="chance">Chance <span class="slide"><input type="range" data-part="rate"
      min="0" max="1" step="any" value="${world.rate < 1 ? world.rate : automaton.other_rate}">
      <output data-part="share"></output></span></label>
    <label>Seed <input type="number" data-part="seed" min="0" max="2147483647" value="0" inputmode="numeric"></label>
  </div>
  <p class="keys"><kbd>space</kbd> play <kbd>.</kbd> step <kbd>R</kbd> reset <kbd>N</kbd> random
    ${tools.map((name) => `<kbd>${name[0].toUpperCase()}</kbd> ${name}`).join(" ")} <kbd>[</kbd> <kbd>]</kbd> brush
    <kbd>−</kbd> <kbd>+</kbd> speed; on the grid arrows and <kbd>enter</kbd></p>
  <details><summary>About this file</summary><ul>${about}</ul></details>
</section>
</div>`;
}
