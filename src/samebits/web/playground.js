// The playground: an automaton on a canvas, with its controls and its circuit.
//
// mountPlayground(element, automaton, {engine}) fills the element and returns a Playground; its destroy() empties it
// again. `automaton` is the record of samebits.families.logic_ca.page.automaton_of; engine is "wasm", "js" or nothing:
// whichever the browser can. The style is playground.css, which touches nothing outside of the class playground.

import { LEAST_SIDE, MOST_SIDE, World } from "./engine.js";
import { drawCircuit, evaluate, gatesOf } from "./circuit.js";
import { Board } from "./canvas.js";
import { bodyOf } from "./controls.js";

const SPEEDS = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 3000, 6000, Infinity]; // steps a second
const BUDGET = 12; // milliseconds of a frame that steps may take
const GLANCE = 100; // milliseconds between two looks at a cell while it plays: faster is only a flicker
const WINDOW = 400; // milliseconds over which updates a second are counted
const numbers = new Intl.NumberFormat("en");
const round = new Intl.NumberFormat("en", { notation: "compact", compactDisplay: "long", maximumSignificantDigits: 3 });

export function mountPlayground(element, automaton, options = {}) {
  return new Playground(element, automaton, options);
}

class Playground {
  constructor(element, automaton, { engine = null } = {}) {
    this.element = element;
    this.automaton = automaton;
    this.world = new World(automaton, engine);
    this.playing = false;
    this.due = 0; // steps, of which a part may be left over
    this.batch = 1; // steps at a time where as many as possible are asked for
    this.counted = { since: performance.now(), steps: 0 };
    this.cell = null; // looked at
    this.brush = null; // where the tool is, while a pointer or the keyboard is on the grid
    this.kind = automaton.start;
    const small = Math.max(1, Math.min(8, automaton.width >> 5));
    const large = Math.max(2, Math.min(40, automaton.width >> 2));
    this.sizes = { paint: small, erase: small, damage: large, seed: 1 }; // of the brush, by tool
    element.classList.add("playground");
    element.innerHTML = bodyOf(automaton, this.world);
    this.parts = Object.fromEntries([...element.querySelectorAll("[data-part]")].map((one) => [one.dataset.part, one]));
    this.board = new Board(this.parts.stage, this.world);
    this.listeners = new AbortController();
    // What a picture shows is often a copy of a hidden channel: begin with one that has something to see.
    this.parts.output.value = automaton.channels.find((channel) => gatesOf(automaton, channel)) ?? automaton.channels[0];
    this.chooseOutput();
    this.listen();
    this.showSpeed();
    this.chooseTool("paint");
    this.setRate();
    this.refresh();
    this.frame = requestAnimationFrame((time) => this.tick(time));
  }

  destroy() {
    cancelAnimationFrame(this.frame);
    this.listeners.abort();
    this.resized.disconnect();
    this.element.replaceChildren();
    this.element.classList.remove("playground");
  }

  // -------------------------------------------------------------------------------------------------------------------
  // What a user can do; tests call the same.

  play(on = !this.playing) {
    this.playing = on;
    this.due = 0;
    this.counted = { since: performance.now(), steps: 0 };
    this.parts.play.setAttribute("aria-pressed", on);
    this.parts.play.querySelector("span").textContent = on ? "Pause" : "Play";
    this.element.classList.toggle("playing", on);
    this.refresh();
  }

  step(steps = 1) {
    this.play(false);
    this.world.step(steps);
    this.refresh();
  }

  // The start it was trained from, or the random one of a seed.
  reset(kind = this.kind, seed = this.world.seed) {
    this.kind = kind;
    this.world.seed = seed;
    this.parts.seed.value = seed;
    this.world.begin(kind);
    this.refresh();
  }

  resize(height, width) {
    this.world.resize(height, width);
    this.world.begin(this.kind);
    [this.parts.height.value, this.parts.width.value] = [height, width];
    this.cell = { y: height >> 1, x: width >> 1 };
    this.brush = null;
    this.board.fit();
    this.refresh();
  }

  use(engine) {
    this.world.use(engine);
    this.refresh();
  }

  cells() {
    return this.world.cells();
  }

  benchmark(steps) {
    this.play(false);
    const found = this.world.benchmark(steps);
    this.refresh();
    return found;
  }

  // -------------------------------------------------------------------------------------------------------------------

  get tool() {
    return this.element.querySelector("[name=tool]:checked").value;
  }

  get shown() {
    const value = this.parts.channel.value;
    return value === "picture" ? [0, 1, 2] : [Number(value)];
  }

  // The block that the tool would change at this cell.
  blockAt({ y, x }) {
    const size = this.sizes[this.tool], half = size >> 1;
    return { top: y - half, left: x - half, height: size, width: size };
  }

  apply(cell, erase = false) {
    const { top, left, height, width } = this.blockAt(cell), tool = erase ? "erase" : this.tool;
    if (tool === "damage") this.world.damage(top, left, height, width);
    else if (tool === "seed") this.world.paint(top, left, 1, 1, this.automaton.channels, 1);
    else this.world.paint(top, left, height, width, this.shown, tool === "paint" ? 1 : 0);
  }

  // From one cell to the next without gaps, however fast a pointer moves.
  stroke(from, to, erase) {
    const far = Math.max(Math.abs(to.y - from.y), Math.abs(to.x - from.x), 1);
    for (let i = from === to ? far : 1; i <= far; i++) {
      const between = (one, other) => Math.round(one + i / far * (other - one));
      this.apply({ y: between(from.y, to.y), x: between(from.x, to.x) }, erase);
    }
  }

  tick(time) {
    const passed = Math.min(100, time - (this.last ?? time));
    this.last = time;
    if (this.playing) {
      this.advance(passed);
      this.refresh();
    }
    this.frame = requestAnimationFrame((next) => this.tick(next));
  }

  // Steps to where training looked at the cells, if that is a picture and yet to come: worth a pause.
  goal() {
    const { start, steps } = this.automaton, left = steps - this.world.time;
    return !["random", "any"].includes(start) && this.kind === start && left > 0 ? left : Infinity;
  }

  advance(passed) {
    const speed = SPEEDS[this.parts.speed.value], began = performance.now();
    this.due = speed === Infinity ? Infinity : this.due + passed * speed / 1000;
    const goal = this.goal();
    let done = 0;
    this.due = Math.min(this.due, goal);
    while (this.due >= 1 && performance.now() - began < BUDGET) {
      const steps = Math.min(this.batch, Math.floor(this.due)), from = performance.now();
      this.world.step(steps);
      const took = performance.now() - from;
      if (took < 2) this.batch = Math.min(4096, 2 * this.batch);
      if (took > 4) this.batch = Math.max(1, this.batch >> 1);
      this.due -= steps;
      done += steps;
    }
    if (this.due > speed / 10 + 1) this.due = 0; // it cannot keep up: do not run after it
    if (done === goal) return this.play(false);
    this.counted.steps += done;
    const span = performance.now() - this.counted.since;
    if (span > WINDOW) {
      const rate = this.counted.steps * this.world.height * this.world.width / span * 1000;
      this.parts.updates.textContent = round.format(rate);
      this.counted = { since: performance.now(), steps: 0 };
    }
  }

  refresh() {
    const { world, parts } = this;
    this.board.draw(this.shown);
    if (!this.playing || performance.now() - this.looked > GLANCE) this.look();
    parts.time.textContent = numbers.format(world.time);
    parts.engine.textContent = world.engine.name === "wasm"
      ? `WebAssembly SIMD, ${numbers.format(world.engine.bytes)} bytes` : "JavaScript";
    if (!this.playing) parts.updates.textContent = "–";
  }

  // The marks on the grid, and the circuit of the cell looked at.
  look() {
    const { world, automaton, parts } = this;
    this.looked = performance.now();
    const cell = this.cell ?? { y: world.height >> 1, x: world.width >> 1 };
    this.board.mark(cell, this.brush && this.blockAt(this.brush), parts.channel.value === "picture");
    const inputs = automaton.inputs.map(([position, channel]) => world.neighbour(cell.y, cell.x, position, channel));
    const values = evaluate(automaton, inputs), channel = Number(parts.output.value);
    this.drawing.light(values);
    const now = world.get(cell.y, cell.x, channel);
    const next = values[automaton.outputs[automaton.channels.indexOf(channel)]];
    const perhaps = world.rate < 1 ? ", if it fires" : "";
    parts.inspected.textContent = `row ${cell.y}, column ${cell.x}: ${now} → ${next}${perhaps}`;
  }

  chooseChannel() {
    const { parts } = this;
    if (parts.channel.value !== "picture") parts.output.value = parts.channel.value;
    this.chooseOutput();
  }

  chooseOutput() {
    this.drawing = drawCircuit(this.parts.circuit, this.automaton, Number(this.parts.output.value));
    const { gates } = this.drawing;
    const counted = gates ? `${numbers.format(gates)} ${gates === 1 ? "gate" : "gates"}` : "a wire, no gate";
    this.parts.gates.textContent = counted;
  }

  showSpeed() {
    const speed = SPEEDS[this.parts.speed.value];
    const text = speed === Infinity ? "as fast as it goes" : `${numbers.format(speed)} steps/s`;
    this.parts.speed.setAttribute("aria-valuetext", text);
    this.parts.pace.textContent = text;
  }

  chooseTool(name) {
    this.element.querySelector(`[name=tool][value=${name}]`).checked = true;
    this.parts.size.value = this.sizes[name];
    this.parts.size.disabled = name === "seed";
    this.setSize();
  }

  setSize() {
    const size = this.sizes[this.tool] = Number(this.parts.size.value);
    this.parts.extent.textContent = `${size}×${size}`;
    this.parts.size.setAttribute("aria-valuetext", `${size} by ${size} cells`);
    this.look();
  }

  // -------------------------------------------------------------------------------------------------------------------

  listen() {
    const { parts, world } = this, { signal } = this.listeners;
    const on = (part, event, action) => part.addEventListener(event, action, { signal });
    on(parts.play, "click", () => this.play());
    on(parts.step, "click", () => this.step());
    on(parts.reset, "click", () => this.reset(this.automaton.start));
    on(parts.random, "click", () => this.reset("random", world.seed + 1));
    on(parts.speed, "input", () => this.showSpeed());
    on(parts.size, "input", () => this.setSize());
    for (const one of this.element.querySelectorAll("[name=tool]")) on(one, "change", () => this.chooseTool(one.value));
    on(parts.channel, "change", () => { this.chooseChannel(); this.refresh(); });
    on(parts.output, "change", () => { this.chooseOutput(); this.refresh(); });
    on(parts.boundary, "change", () => { world.wrap(parts.boundary.value === "periodic"); this.refresh(); });
    on(parts.update, "change", () => this.setRate());
    on(parts.rate, "input", () => this.setRate());
    on(parts.seed, "change", () => this.reset(this.kind, wholeOf(parts.seed, 0, 2 ** 31 - 1)));
    for (const side of [parts.height, parts.width]) {
      on(side, "change", () => {
        this.resize(wholeOf(parts.height, LEAST_SIDE, MOST_SIDE), wholeOf(parts.width, LEAST_SIDE, MOST_SIDE));
        parts.grid.value = "";
      });
    }
    on(parts.grid, "change", () => {
      if (parts.grid.value) this.resize(...parts.grid.value.split("x").map(Number));
    });
    this.listenToPointer(on);
    on(document, "keydown", (event) => this.key(event));
    on(window.matchMedia("(prefers-color-scheme: dark)"), "change", () => { this.board.fit(); this.refresh(); });
    this.resized = new ResizeObserver(() => { this.board.fit(); this.refresh(); });
    this.resized.observe(parts.stage);
  }

  listenToPointer(on) {
    const { marks } = this.board;
    let from = null, erase = false;
    on(marks, "contextmenu", (event) => event.preventDefault());
    on(marks, "pointerdown", (event) => {
      marks.setPointerCapture(event.pointerId);
      marks.focus({ preventScroll: true });
      from = this.board.cellAt(event);
      erase = event.button === 2 || event.button === 5; // the right button, and a pen's other end
      this.stroke(from, from, erase);
      this.moveTo(from);
      this.refresh();
    });
    on(marks, "pointermove", (event) => {
      const cell = this.board.cellAt(event);
      if (from) {
        this.stroke(from, cell, erase);
        from = cell;
      }
      this.moveTo(cell);
      if (from) this.refresh();
      else this.look();
    });
    for (const name of ["pointerup", "pointercancel"]) on(marks, name, () => { from = null; });
    on(marks, "pointerleave", () => { this.brush = null; this.look(); });
    on(marks, "blur", () => { this.brush = null; this.look(); });
  }

  moveTo({ y, x }) {
    const inside = (place, side) => Math.min(side - 1, Math.max(0, place));
    this.cell = { y: inside(y, this.world.height), x: inside(x, this.world.width) };
    this.brush = { y, x };
  }

  setRate() {
    const { parts, world } = this, asynchronous = parts.update.value === "asynchronous";
    world.rate = asynchronous ? Number(parts.rate.value) : 1;
    parts.chance.hidden = !asynchronous;
    parts.share.textContent = `${Math.round(100 * parts.rate.value)} %`;
    this.look();
  }

  key(event) {
    const { target } = event;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (target !== document.body && !this.element.contains(target)) return;
    if (target.matches("input, select, textarea") && target.type !== "radio") return;
    const onGrid = target === this.board.marks, button = target.matches("button");
    const tools = { p: "paint", e: "erase", d: "damage", s: "seed" };
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const name = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const known = tools[name] && this.element.querySelector(`[name=tool][value=${tools[name]}]`);
    if (name === " " && !button) this.play();
    else if (name === ".") this.step();
    else if (name === "r") this.reset(this.automaton.start);
    else if (name === "n") this.reset("random", this.world.seed + 1);
    else if (known) this.chooseTool(tools[name]);
    else if (name === "[" || name === "]") nudge(this.parts.size, name === "]" ? 1 : -1);
    else if (name === "-" || name === "+") nudge(this.parts.speed, name === "+" ? 1 : -1);
    else if (onGrid && moves[name]) {
      const cell = this.cell ?? { y: this.world.height >> 1, x: this.world.width >> 1 };
      this.moveTo({ y: cell.y + moves[name][0], x: cell.x + moves[name][1] });
      this.brush = this.cell;
      this.look();
    } else if (onGrid && name === "Enter") {
      this.apply(this.cell ?? { y: this.world.height >> 1, x: this.world.width >> 1 }, event.shiftKey);
      this.refresh();
    } else return;
    event.preventDefault();
  }
}

function nudge(range, by) {
  range.value = Number(range.value) + by;
  range.dispatchEvent(new Event("input"));
}

// The whole number in a field, put right where it is none or too large.
function wholeOf(field, least, most) {
  const number = Math.min(most, Math.max(least, Math.round(Number(field.value)) || least));
  field.value = number;
  return number;
}
