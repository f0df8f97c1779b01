// The automaton itself: its state in memory, and two engines that step it to the same bits.
//
// State: rows of lines, a line a kept channel (samebits/hardware/writers/wasm.py has the same). A line is LINE bytes: 8
// for the cell to the west of the first, up to 1,024 cells, a bit each, 8 for the one to the east of the last. A row
// lies above and below. Two such states, now and next, and then a fire mask of FIRE_LINE bytes a row.

export const LEAST_SIDE = 3;
export const MOST_SIDE = 1024;
const LINE = 144;
const FIRE_LINE = 128;
const WORDS = LINE / 4; // of 32 bits, in a line; the first cell is in word FIRST
const FIRST = 2;
const PAGE = 65536;

// ---------------------------------------------------------------------------------------------------------------------
// Philox4x64-10, the words of samebits/arithmetic/rng.py. JavaScript multiplies 32 bits at a time, in two halves.

const MULTIPLIERS = [[0xd2e7470e, 0xe14c6c93], [0xca5a8263, 0x95121157]]; // upper and lower half
const WEYL = [0x9e3779b97f4a7c15n, 0xbb67ae8584caa73bn];
const ROUNDS = 10;
const wide = new Uint32Array(4); // a product of two 64-bit numbers, lowest word first

function highOf(a, b) {
  const a0 = a & 0xffff, a1 = a >>> 16, b0 = b & 0xffff, b1 = b >>> 16;
  const middle = a1 * b0 + ((a0 * b0) >>> 16);
  const other = a0 * b1 + (middle & 0xffff);
  return a1 * b1 + (middle >>> 16) + (other >>> 16);
}

function multiply([f1, f0], c1, c0) {
  const carry = highOf(f0, c0) + (Math.imul(f1, c0) >>> 0) + (Math.imul(f0, c1) >>> 0);
  const upper = highOf(f1, c0) + highOf(f0, c1) + (Math.imul(f1, c1) >>> 0) + Math.floor(carry / 4294967296);
  wide[0] = Math.imul(f0, c0);
  wide[1] = carry;
  wide[2] = upper;
  wide[3] = highOf(f1, c1) + Math.floor(upper / 4294967296);
}

// The keys of all rounds, as upper and lower halves.
function keysOf(seed, purpose) {
  const keys = new Uint32Array(4 * ROUNDS);
  let k0 = BigInt.asUintN(64, BigInt(seed)), k1 = BigInt(purpose);
  for (let round = 0; round < ROUNDS; round++) {
    keys.set([Number(k0 >> 32n), Number(k0 & 0xffffffffn), Number(k1 >> 32n), Number(k1 & 0xffffffffn)], 4 * round);
    k0 = BigInt.asUintN(64, k0 + WEYL[0]);
    k1 = BigInt.asUintN(64, k1 + WEYL[1]);
  }
  return keys;
}

// `count` words of one row: rng.words((1, count), seed, purpose, 0, index=position, extra=extra). Lower halves first.
export function philoxWords(count, seed, purpose, extra, position) {
  const keys = keysOf(seed, purpose);
  const blocks = Math.ceil(count / 4), out = new Uint32Array(8 * blocks);
  const high = Math.floor(position / 4294967296);
  for (let block = 0; block < blocks; block++) {
    let c0h = 0, c0 = block, c1h = 0, c1 = extra, c2h = high, c2 = position >>> 0, c3h = 0, c3 = 0;
    for (let k = 0; k < 4 * ROUNDS; k += 4) {
      multiply(MULTIPLIERS[0], c0h, c0);
      const l0 = wide[0], l0h = wide[1];
      const n2 = wide[2] ^ c3 ^ keys[k + 3], n2h = wide[3] ^ c3h ^ keys[k + 2];
      multiply(MULTIPLIERS[1], c2h, c2);
      c0 = (wide[2] ^ c1 ^ keys[k + 1]) >>> 0;
      c0h = (wide[3] ^ c1h ^ keys[k]) >>> 0;
      c1 = wide[0];
      c1h = wide[1];
      c2 = n2 >>> 0;
      c2h = n2h >>> 0;
      c3 = l0;
      c3h = l0h;
    }
    out.set([c0, c0h, c1, c1h, c2, c2h, c3, c3h], 8 * block);
  }
  return out;
}

// ---------------------------------------------------------------------------------------------------------------------
// Engines: {name, bytes, memory, reserve(bytes), step, edges, blend, fire}; the four as in wasm.py, `memory` a buffer.

export function wasmEngine(automaton) {
  const raw = Uint8Array.from(atob(automaton.wasm), (letter) => letter.charCodeAt(0));
  const { memory, step, edges, blend, fire } = new WebAssembly.Instance(new WebAssembly.Module(raw)).exports;
  return {
    name: "wasm", bytes: raw.length, step, edges, blend,
    get memory() { return memory.buffer; },
    reserve(bytes) {
      const missing = Math.ceil((bytes - memory.buffer.byteLength) / PAGE);
      if (missing > 0) memory.grow(missing);
    },
    fire(out, height, width, seed, purpose, extra, position, rate) {
      fire(out, height, width, BigInt(seed), BigInt(purpose), BigInt(extra), BigInt(position), belowOf(rate));
    },
  };
}

// A word fires below this: the number that NumPy makes of rate · 2⁶⁴, which a double holds exactly.
function belowOf(rate) {
  return BigInt(Math.floor(rate * 2 ** 64));
}

export const OPERATIONS = [
  "0", "a & b", "a & ~b", "a", "b & ~a", "b", "a ^ b", "a | b",
  "~(a | b)", "~(a ^ b)", "~b", "a | ~b", "~a", "b | ~a", "~(a & b)", "-1",
];

// JavaScript of one step: 32 cells a word, each gate one line.
export function stepSource({ channels, inputs, gates, outputs }) {
  const row = channels.length * WORDS;
  const loads = inputs.map(([position, channel], i) => {
    const dx = position % 3 - 1;
    const at = Math.floor(position / 3) * row + channels.indexOf(channel) * WORDS + FIRST;
    const here = `S[p + ${at}]`;
    if (dx < 0) return `const n${i} = ${here} << 1 | S[p + ${at - 1}] >>> 31;`;
    if (dx > 0) return `const n${i} = ${here} >>> 1 | S[p + ${at + 1}] << 31;`;
    return `const n${i} = ${here};`;
  });
  const name = (node) => `n${node}`;
  const lines = gates.map(([op, a, b], i) => {
    const said = OPERATIONS[op].replace(/[ab]/g, (letter) => name(letter === "a" ? a : b));
    return `const n${inputs.length + i} = ${said};`;
  });
  const stores = outputs.map((node, k) => `S[q + ${row + k * WORDS + FIRST}] = ${name(node)};`);
  return `for (let y = 0; y < height; y++) {
  for (let p = before + y * ${row}, q = after + y * ${row}, end = p + words; p < end; p++, q++) {
${[...loads, ...lines, ...stores].map((line) => "    " + line).join("\n")}
  }
}`;
}

export function scriptEngine(automaton) {
  const lines = automaton.channels.length, row = lines * WORDS;
  let state = new Uint32Array(0);
  const run = new Function("S", "before", "after", "height", "words", stepSource(automaton));
  return {
    name: "js", bytes: 0,
    get memory() { return state.buffer; },
    reserve(bytes) {
      if (state.byteLength < bytes) state = new Uint32Array(Math.ceil(bytes / 4));
    },
    step(before, after, height, vectors) {
      run(state, before / 4, after / 4, height, 4 * vectors);
    },
    edges(start, height, width, periodic) {
      const first = start / 4, last = FIRST + ((width - 1) >> 5), beyond = FIRST + (width >> 5);
      const mask = 0xffffffff >>> (-width & 31);
      for (let p = first + row, left = height * lines; left > 0; left--, p += WORDS) {
        const tail = state[p + last] & mask;
        state[p + last] = tail;
        state.fill(0, p + last + 1, p + WORDS);
        state[p + FIRST - 1] = periodic ? (tail >>> (width - 1 & 31)) << 31 : 0;
        if (periodic) state[p + beyond] |= (state[p + FIRST] & 1) << (width & 31);
      }
      const under = first + (height + 1) * row;
      if (periodic) {
        state.copyWithin(first, under - row, under);
        state.copyWithin(under, first + row, first + 2 * row);
      } else {
        state.fill(0, first, first + row);
        state.fill(0, under, under + row);
      }
    },
    blend(before, after, fire, height, vectors) {
      for (let y = 0; y < height; y++) {
        const mask = (fire + y * FIRE_LINE) / 4;
        for (let k = 0; k < lines; k++) {
          const at = (y + 1) * row + k * WORDS + FIRST, from = before / 4 + at, to = after / 4 + at;
          for (let w = 0; w < 4 * vectors; w++) {
            state[to + w] = state[from + w] ^ ((state[from + w] ^ state[to + w]) & state[mask + w]);
          }
        }
      }
    },
    fire(out, height, width, seed, purpose, extra, position, rate) {
      const below = belowOf(rate), high = Number(below >> 32n), low = Number(below & 0xffffffffn);
      const words = philoxWords(height * width, seed, purpose, extra, position);
      state.fill(0, out / 4, (out + height * FIRE_LINE) / 4);
      for (let y = 0, i = 0; y < height; y++) {
        for (let x = 0; x < width; x++, i += 2) {
          const fires = words[i + 1] < high || (words[i + 1] === high && words[i] < low);
          if (fires) state[(out + y * FIRE_LINE) / 4 + (x >> 5)] |= 1 << (x & 31);
        }
      }
    },
  };
}

// WebAssembly where there is SIMD, or what is asked for: "wasm" or "js".
export function engineFor(automaton, wanted) {
  if (wanted === "js") return scriptEngine(automaton);
  try {
    return wasmEngine(automaton);
  } catch (error) {
    if (wanted === "wasm" || !(error instanceof WebAssembly.CompileError)) throw error;
    return scriptEngine(automaton);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// A grid of cells: exactly `samebits render` and LogicModel.rollout, given the same start, masks and number of steps.

export class World {
  constructor(automaton, wanted) {
    this.automaton = automaton;
    this.lines = automaton.channels.length;
    this.engine = engineFor(automaton, wanted);
    this.periodic = automaton.boundary === "periodic";
    this.rate = automaton.fire_rate;
    this.seed = 0;
    this.resize(automaton.height, automaton.width);
  }

  resize(height, width) {
    for (const side of [height, width]) {
      if (!Number.isInteger(side) || side < LEAST_SIDE || side > MOST_SIDE) {
        throw new RangeError(`a side of ${side} cells; it must be from ${LEAST_SIDE} to ${MOST_SIDE}`);
      }
    }
    Object.assign(this, { height, width, vectors: Math.ceil(width / 128) });
    this.row = this.lines * LINE;
    const plane = (height + 2) * this.row;
    [this.now, this.next, this.mask] = [0, plane, 2 * plane];
    this.engine.reserve(2 * plane + height * FIRE_LINE);
    this.words = new Uint32Array(this.engine.memory);
    this.begin();
  }

  // Go on in another engine with the same cells.
  use(wanted) {
    const words = this.words.slice();
    this.engine = engineFor(this.automaton, wanted);
    this.engine.reserve(words.byteLength);
    this.words = new Uint32Array(this.engine.memory);
    this.words.set(words);
  }

  // The start that the automaton was trained from, or another kind: "random", "centre" (one full cell), "zeros", or
  // "any", which was trained from both one cell and random bits, and begins with the cell.
  begin(kind = this.automaton.start) {
    this.words.fill(0);
    this.time = 0;
    if (kind === "centre" || kind === "any") this.paint(this.height >> 1, this.width >> 1, 1, 1, this.automaton.channels, 1);
    if (kind === "random") this.drawBits();
    this.border();
  }

  drawBits() {
    const { channels, all_channels: all, start_draw: [purpose, extra] } = this.automaton;
    const count = this.height * this.width * all;
    const drawn = philoxWords(Math.ceil(count / 64), this.seed, purpose, extra, 0);
    for (let y = 0, cell = 0; y < this.height; y++) {
      for (let x = 0; x < this.width; x++, cell += all) {
        for (let k = 0; k < this.lines; k++) {
          const bit = cell + channels[k];
          if (drawn[bit >> 5] >>> (bit & 31) & 1) this.words[this.wordOf(y, x, k)] |= 1 << (x & 31);
        }
      }
    }
  }

  wordOf(y, x, k) {
    return this.now / 4 + ((y + 1) * this.lines + k) * WORDS + FIRST + (x >> 5);
  }

  border() {
    this.engine.edges(this.now, this.height, this.width, this.periodic ? 1 : 0);
  }

  step(steps = 1) {
    const { engine, height, width, vectors, mask } = this;
    const [purpose, extra] = this.automaton.fire_draw;
    for (let i = 0; i < steps; i++) {
      engine.step(this.now, this.next, height, vectors);
      if (this.rate < 1) {
        engine.fire(mask, height, width, this.seed, purpose, extra, this.time, this.rate);
        engine.blend(this.now, this.next, mask, height, vectors);
      }
      engine.edges(this.next, height, width, this.periodic ? 1 : 0);
      [this.now, this.next] = [this.next, this.now];
      this.time++;
    }
  }

  wrap(periodic) {
    this.periodic = periodic;
    this.border();
  }

  // Set these channels (their numbers in the model) of a block of cells to 0 or 1; what lies outside is cut off.
  paint(top, left, height, width, channels, value) {
    for (const channel of channels) {
      const k = this.automaton.channels.indexOf(channel);
      for (let y = Math.max(0, top); y < Math.min(this.height, top + height); y++) {
        for (let x = Math.max(0, left); x < Math.min(this.width, left + width); x++) {
          const at = this.wordOf(y, x, k), bit = 1 << (x & 31);
          this.words[at] = value ? this.words[at] | bit : this.words[at] & ~bit;
        }
      }
    }
    this.border();
  }

  damage(top, left, height, width) {
    this.paint(top, left, height, width, this.automaton.channels, 0);
  }

  get(y, x, channel) {
    const k = this.automaton.channels.indexOf(channel);
    return this.words[this.wordOf(y, x, k)] >>> (x & 31) & 1;
  }

  // What a cell's circuit reads at a position of its neighbourhood: outside the grid, the border.
  neighbour(y, x, position, channel) {
    let row = y + Math.floor(position / 3) - 1, column = x + position % 3 - 1;
    if (this.periodic) {
      row = (row + this.height) % this.height;
      column = (column + this.width) % this.width;
    }
    const inside = row >= 0 && row < this.height && column >= 0 && column < this.width;
    return inside ? this.get(row, column, channel) : 0;
  }

  // (height, width, kept channels) as bytes 0 and 1, row by row: for tests, and for saving.
  cells() {
    const out = new Uint8Array(this.height * this.width * this.lines);
    for (let y = 0, i = 0; y < this.height; y++) {
      for (let x = 0; x < this.width; x++) {
        for (let k = 0; k < this.lines; k++, i++) out[i] = this.words[this.wordOf(y, x, k)] >>> (x & 31) & 1;
      }
    }
    return out;
  }

  // Cell updates a second of so many steps, which go on from here.
  benchmark(steps) {
    const began = performance.now();
    this.step(steps);
    return this.height * this.width * steps / (performance.now() - began) * 1000;
  }
}
