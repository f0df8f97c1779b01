// The circuit of one channel as a drawing: inputs on top, gates in layers, the next state below. It lights up for a
// cell.
//
// A gate [operation, a, b] has its truth table for a number: 8 if it is 1 for a = b = 0, 4 for b alone, 2 for a alone,
// 1 for both.

export const COMPASS = ["NW", "N", "NE", "W", "C", "E", "SW", "S", "SE"];
const PLACES = [
  "the north-west neighbour", "the neighbour to the north", "the north-east neighbour", "the neighbour to the west",
  "the cell itself", "the neighbour to the east", "the south-west neighbour", "the neighbour to the south",
  "the south-east neighbour",
];
// What a gate is called, and which of its inputs (1: a, 2: b) has a circle: it is inverted first.
const LABELS = [
  ["0", 0], ["and", 0], ["and", 2], ["=", 0], ["and", 1], ["=", 0], ["xor", 0], ["or", 0],
  ["nor", 0], ["xnor", 0], ["not", 0], ["or", 2], ["not", 0], ["or", 1], ["nand", 0], ["1", 0],
];
export const MOST_GATES = 260; // more than that is a carpet
const SWEEPS = 24, SETTLE = 80;
const BOX = { input: [58, 30], gate: [46, 24], output: [74, 28], wire: [8, 24] };
const APART = 10, WIRE_APART = 8, MARGIN = 8;
const DOT = 4; // a cell of the small neighbourhood in an input

const readsA = (op) => op >> 2 !== (op & 3);
const readsB = (op) => (op & 10) >> 1 !== (op & 5);
const mean = (numbers) => numbers.reduce((sum, number) => sum + number, 0) / numbers.length;

// Values of all nodes for inputs 0 and 1, in the cell's numbering.
export function evaluate({ gates }, inputs) {
  const values = Uint8Array.from({ length: inputs.length + gates.length }, (_, i) => inputs[i] ?? 0);
  gates.forEach(([op, a, b], i) => {
    values[inputs.length + i] = op >> (3 - 2 * values[a] - values[b]) & 1;
  });
  return values;
}

// The nodes that a channel's next state depends on.
export function coneOf({ inputs, gates, outputs, channels }, channel) {
  const found = new Set([outputs[channels.indexOf(channel)]]);
  for (let gate = gates.length - 1; gate >= 0; gate--) {
    if (!found.has(inputs.length + gate)) continue;
    const [op, a, b] = gates[gate];
    if (readsA(op)) found.add(a);
    if (readsB(op)) found.add(b);
  }
  return found;
}

export function gatesOf(automaton, channel) {
  return [...coneOf(automaton, channel)].filter((node) => node >= automaton.inputs.length).length;
}

// ---------------------------------------------------------------------------------------------------------------------
// Layout: boxes by depth; a wire that crosses a layer has a place in it; few crossings; everything near what it reads.

function layersOf(automaton, channel) {
  const { inputs, gates, outputs, channels } = automaton;
  const cone = coneOf(automaton, channel), items = new Map();
  for (const node of [...cone].sort((one, other) => one - other)) {
    if (node < inputs.length) {
      items.set(node, { node, kind: "input", layer: 0, before: [], after: [] });
      continue;
    }
    const [op, a, b] = gates[node - inputs.length];
    const sources = [...(readsA(op) ? [items.get(a)] : []), ...(readsB(op) ? [items.get(b)] : [])];
    const layer = 1 + Math.max(0, ...sources.map((item) => item.layer));
    items.set(node, { node, op, kind: "gate", layer, before: sources, after: [] });
  }
  const read = items.get(outputs[channels.indexOf(channel)]);
  const last = { node: read.node, kind: "output", layer: read.layer + 1, before: [read], after: [] };
  const layers = Array.from({ length: last.layer + 1 }, () => []);
  const trunks = new Map();
  const trunk = (source, layer) => {
    if (source.layer === layer) return source;
    const key = `${source.node} ${layer}`;
    if (!trunks.has(key)) {
      const item = { node: source.node, kind: "wire", layer, before: [trunk(source, layer - 1)], after: [] };
      trunks.set(key, item);
      layers[layer].push(item);
    }
    return trunks.get(key);
  };
  const boxes = [...items.values(), last];
  for (const item of boxes) layers[item.layer].push(item);
  for (const item of boxes) item.before = item.before.map((source) => trunk(source, item.layer - 1));
  for (const item of layers.flat()) item.before.forEach((source) => source.after.push(item));
  return layers.filter((layer) => layer.length); // a constant has no inputs above it
}

function crossings(layers) {
  let total = 0;
  layers.slice(1).forEach((layer, i) => {
    const rank = new Map(layers[i].map((item, place) => [item, place]));
    const ends = layer.flatMap((item, place) => item.before.map((source) => [rank.get(source), place]));
    for (const [s, t] of ends) for (const [u, v] of ends) if (s < u && t > v) total++;
  });
  return total;
}

function order(layers) {
  let best = crossings(layers), kept = layers.map((layer) => [...layer]);
  for (let sweep = 0; sweep < SWEEPS && best > 0; sweep++) {
    const down = sweep % 2 === 0;
    for (let i = 1; i < layers.length; i++) {
      const layer = layers[down ? i : layers.length - 1 - i];
      const beside = layers[down ? i - 1 : layers.length - i];
      const rank = new Map(beside.map((item, place) => [item, place]));
      const middle = new Map(layer.map((item, place) => {
        const near = (down ? item.before : item.after).map((other) => rank.get(other));
        return [item, near.length ? mean(near) : place * beside.length / layer.length];
      }));
      layer.sort((one, other) => middle.get(one) - middle.get(other));
    }
    const found = crossings(layers);
    if (found < best) [best, kept] = [found, layers.map((layer) => [...layer])];
  }
  return kept;
}

// The nearest sequence, by weighted squares, that never falls: neighbours that do are pooled at their mean.
function rising(wishes, weights) {
  const pools = [];
  wishes.forEach((wish, i) => {
    let pool = [wish, weights[i], 1];
    while (pools.length && pools.at(-1)[0] > pool[0]) {
      const [value, weight, size] = pools.pop(), both = weight + pool[1];
      pool = [(value * weight + pool[0] * pool[1]) / both, both, size + pool[2]];
    }
    pools.push(pool);
  });
  return pools.flatMap(([value, , size]) => Array(size).fill(value));
}

function place(layers) {
  const rooms = layers.map((layer) => {
    let x = 0;
    return layer.map((item, i) => {
      if (i) {
        const wires = item.kind === "wire" && layer[i - 1].kind === "wire";
        x += (BOX[item.kind][0] + BOX[layer[i - 1].kind][0]) / 2 + (wires ? WIRE_APART : APART);
      }
      return x;
    });
  });
  layers.forEach((layer, i) => layer.forEach((item, k) => { item.x = rooms[i][k] - rooms[i].at(-1) / 2; }));
  for (let sweep = 0; sweep < SETTLE; sweep++) {
    for (let i = 0; i < layers.length; i++) {
      const index = sweep % 2 ? layers.length - 1 - i : i, layer = layers[index];
      const wishes = layer.map((item, k) => {
        const near = [...item.before, ...item.after].map((other) => other.x);
        return (near.length ? mean(near) : item.x) - rooms[index][k];
      });
      const found = rising(wishes, layer.map((item) => item.kind === "wire" ? 4 : 1));
      layer.forEach((item, k) => { item.x = found[k] + rooms[index][k]; });
    }
  }
  let y = MARGIN;
  for (const [i, layer] of layers.entries()) {
    const height = Math.max(...layer.map((item) => BOX[item.kind][1]));
    const wires = layer.reduce((sum, item) => sum + item.after.length, 0);
    layer.forEach((item) => { item.y = y + height / 2; });
    y += height + (i < layers.length - 1 ? 16 + Math.min(26, 1.2 * wires) : MARGIN);
  }
  const items = layers.flat();
  const left = Math.min(...items.map((item) => item.x - BOX[item.kind][0] / 2)) - MARGIN;
  const right = Math.max(...items.map((item) => item.x + BOX[item.kind][0] / 2)) + MARGIN;
  items.forEach((item) => { item.x -= left; });
  return { items, width: right - left, height: y };
}

// ---------------------------------------------------------------------------------------------------------------------

function svg(name, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Of two, the wire from further left enters on the left, whichever is a.
function portsOf(item) {
  if (item.before.length < 2) return item.before.map((source) => [source, item.x]);
  const [one, other] = item.before, left = one.x <= other.x ? 0 : 1, side = BOX.gate[0] / 4;
  return [[one, item.x + (left === 0 ? -side : side)], [other, item.x + (left === 1 ? -side : side)]];
}

function boxOf(item, automaton) {
  const [width, height] = BOX[item.kind], x = item.x - width / 2, y = item.y - height / 2;
  const round = item.kind === "gate" ? 6 : height / 2;
  const group = svg("g", { class: item.kind }, svg("rect", { x, y, width, height, rx: round }));
  if (item.kind === "input") {
    const [position, channel] = automaton.inputs[item.node];
    for (let cell = 0; cell < 9; cell++) {
      const at = { x: x + 9 + (cell % 3) * 1.3 * DOT, y: item.y + (Math.floor(cell / 3) - 1.4) * 1.3 * DOT };
      group.append(svg("rect", { ...at, width: DOT, height: DOT, class: cell === position ? "spot" : "other" }));
    }
    const said = automaton.channels.length > 1 ? `c${channel}` : COMPASS[position];
    group.append(svg("text", { x: item.x + 11, y: item.y }, said));
    group.append(svg("title", {}, `channel ${channel} of ${PLACES[position]}`));
  } else if (item.kind === "gate") {
    const [label, inverted] = LABELS[item.op];
    group.append(svg("text", { x: item.x, y: item.y }, label));
    group.append(svg("title", {}, inverted ? `${label}; the input with a circle is inverted first` : label));
    portsOf(item).forEach(([, port], i) => {
      if (inverted === i + 1) group.append(svg("circle", { cx: port, cy: y, r: 3.2 }));
    });
  } else {
    group.append(svg("text", { x: item.x, y: item.y }, "next state"));
  }
  return group;
}

function wire(x0, y0, x1, y1) {
  const bend = (y1 - y0) / 2;
  return `M${x0} ${y0}C${x0} ${y0 + bend} ${x1} ${y1 - bend} ${x1} ${y1}`;
}

// Draw the circuit of a channel into the element; light(values) shows one cell's. Null where it has too many gates.
export function drawCircuit(element, automaton, channel) {
  const gates = gatesOf(automaton, channel);
  if (gates > MOST_GATES) {
    const note = document.createElement("p");
    note.textContent = `${gates} gates: too many for a drawing. Choose another channel.`;
    element.replaceChildren(note);
    return { gates, light() {} };
  }
  const { items, width, height } = place(order(layersOf(automaton, channel)));
  const drawing = svg("svg", {
    viewBox: `0 0 ${width} ${height}`, width: 1.1 * width, height: 1.1 * height, role: "img",
    "aria-label": `the circuit of channel ${channel}: ${gates} ${gates === 1 ? "gate" : "gates"}`,
  });
  const paths = new Map(), lit = [];
  for (const item of items) {
    const top = item.y - BOX[item.kind][1] / 2, bottom = item.y + BOX[item.kind][1] / 2;
    const runs = item.kind === "wire" ? [`M${item.x} ${top}V${bottom}`] : [];
    for (const [source, x] of portsOf(item)) {
      runs.push(wire(source.x, source.y + BOX[source.kind][1] / 2, x, top));
      paths.set(source.node, [...(paths.get(source.node) ?? []), runs.pop()]);
    }
    if (runs.length) paths.set(item.node, [...(paths.get(item.node) ?? []), ...runs]);
  }
  for (const [node, runs] of paths) {
    const d = runs.join(""), group = svg("g", { class: "wire" }, svg("path", { class: "rim", d }), svg("path", { d }));
    drawing.append(group);
    lit.push([group, node]);
  }
  for (const item of items.filter((one) => one.kind !== "wire")) {
    const group = boxOf(item, automaton);
    drawing.append(group);
    lit.push([group, item.node]);
  }
  element.replaceChildren(drawing);
  return { gates, light: (values) => lit.forEach(([group, node]) => group.classList.toggle("on", values[node] === 1)) };
}
