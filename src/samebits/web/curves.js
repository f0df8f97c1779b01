// Curves on a canvas: several lines, a linear or logarithmic scale, values under the pointer, and points that keep coming.

const MOST_POINTS = 6000; // of a line; beyond, neighbours become their least and largest
const MARGIN = { left: 58, right: 12, top: 10, bottom: 24 };
const DASHES = [[], [6, 4], [2, 3], [8, 3, 2, 3]];

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** At most half as many points, so that no peak is lost. */
function thin(line) {
  const steps = [], values = [];
  for (let i = 0; i < line.values.length; i += 4) {
    const some = line.values.slice(i, i + 4);
    const low = i + some.indexOf(Math.min(...some)), high = i + some.indexOf(Math.max(...some));
    for (const at of low === high ? [low] : [Math.min(low, high), Math.max(low, high)]) {
      steps.push(line.steps[at]);
      values.push(line.values[at]);
    }
  }
  line.steps = steps;
  line.values = values;
}

export function ticks(from, to, count) {
  const rough = (to - from) / Math.max(1, count), power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough) ?? power;
  const found = [];
  for (let at = Math.ceil(from / step - 1e-9) * step; at <= to + step * 1e-9; at += step) found.push(at);
  return found;
}

function written(value) {
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 1e6 || size < 1e-3) return value.toExponential(0).replace("e+", "e");
  return size >= 1000 ? value.toLocaleString("en") : String(Number(value.toPrecision(3)));
}

export class Chart {
  constructor(parent, title) {
    this.title = title;
    this.lines = new Map();
    this.log = false;
    this.element = document.createElement("div");
    this.element.className = "chart";
    const head = document.createElement("h3");
    head.textContent = title;
    this.canvas = document.createElement("canvas");
    this.canvas.setAttribute("role", "img");
    this.tip = document.createElement("div");
    this.tip.className = "tip";
    this.tip.hidden = true;
    this.legend = document.createElement("div");
    this.legend.className = "legend";
    this.element.append(head, this.canvas, this.legend, this.tip);
    parent.append(this.element);
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", () => { this.pointed = null; this.tip.hidden = true; this.draw(); });
  }

  line(key, label, colour, dash) {
    if (!this.lines.has(key)) this.lines.set(key, { label, colour, dash, steps: [], values: [] });
    return this.lines.get(key);
  }

  /** All points of a line anew, or with `more` some that follow. */
  put(key, label, colour, dash, points, more) {
    const line = this.line(key, label, colour, dash);
    if (!more) { line.steps = []; line.values = []; }
    points.values.forEach((value, i) => {
      if (value === null || (more && points.steps[i] <= line.steps.at(-1))) return;
      line.steps.push(points.steps[i]);
      line.values.push(value);
    });
    if (line.values.length > MOST_POINTS) thin(line);
    this.draw();
  }

  remove(run) {
    for (const key of [...this.lines.keys()]) if (key.startsWith(`${run}\n`)) this.lines.delete(key);
    this.draw();
  }

  draw() {
    if (!this.waiting) this.waiting = requestAnimationFrame(() => { this.waiting = 0; this.paint(); });
  }

  scales(width, height) {
    let left = Infinity, right = -Infinity, low = Infinity, high = -Infinity;
    for (const { steps, values } of this.lines.values()) {
      for (let i = 0; i < values.length; i++) {
        if (this.log && values[i] <= 0) continue;
        if (steps[i] < left) left = steps[i];
        if (steps[i] > right) right = steps[i];
        if (values[i] < low) low = values[i];
        if (values[i] > high) high = values[i];
      }
    }
    if (left > right) return null;
    if (left === right) { left -= 1; right += 1; }
    const [from, to] = this.log ? [Math.log10(low), Math.log10(high)] : [low, high];
    const room = (to - from) * 0.06 || Math.abs(to) * 0.1 || 1;
    const bottom = !this.log && low >= 0 && from - room < 0 ? 0 : from - room, top = to + room;
    return {
      left, right, bottom, top,
      x: (step) => MARGIN.left + ((step - left) / (right - left)) * (width - MARGIN.left - MARGIN.right),
      y: (value) => height - MARGIN.bottom - (((this.log ? Math.log10(value) : value) - bottom) / (top - bottom)) * (height - MARGIN.top - MARGIN.bottom),
    };
  }

  paint() {
    const { canvas } = this, ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const pen = canvas.getContext("2d"), scale = (this.scale = this.scales(width, height));
    pen.scale(ratio, ratio);
    pen.font = "12px system-ui, sans-serif";
    if (!scale) {
      pen.fillStyle = style("--soft");
      pen.fillText(this.log ? "nothing above 0 yet" : "nothing measured yet", MARGIN.left, height / 2);
      return;
    }
    this.axes(pen, scale, width, height);
    const points = [];
    for (const line of this.lines.values()) {
      pen.strokeStyle = style(`--line-${line.colour % 6}`);
      pen.lineWidth = 1.6;
      pen.lineJoin = "round";
      pen.setLineDash(DASHES[line.dash % DASHES.length]);
      pen.beginPath();
      let begun = false;
      line.values.forEach((value, i) => {
        if (this.log && value <= 0) return;
        const x = scale.x(line.steps[i]), y = scale.y(value);
        begun ? pen.lineTo(x, y) : pen.moveTo(x, y);
        begun = true;
      });
      pen.stroke();
      pen.setLineDash([]);
      if (line.values.length === 1) pen.fillRect(scale.x(line.steps[0]) - 2, scale.y(line.values[0]) - 2, 4, 4);
      points.push(line.values.length);
    }
    if (this.pointed) this.mark(pen, scale, height);
    this.tell();
    const ends = [...this.lines.values()].filter((line) => line.values.length).map((line) => `${line.label} ${written(line.values.at(-1))} at step ${line.steps.at(-1)}`);
    canvas.setAttribute("aria-label", `${this.title}: ${ends.join("; ")}`);
    canvas.dataset.points = String(points.reduce((a, b) => a + b, 0));
  }

  /** Which line is which, where there are several. */
  tell() {
    const names = [...this.lines.values()].filter((line) => line.values.length);
    const told = names.map((line) => line.label).join("\n");
    if (names.length < 2 || this.legend.dataset.told === told) { this.legend.hidden = names.length < 2; return; }
    this.legend.hidden = false;
    this.legend.dataset.told = told;
    this.legend.replaceChildren(...names.map((line) => {
      const row = document.createElement("span"), mark = document.createElement("i");
      mark.style.borderTopStyle = ["solid", "dashed", "dotted", "dashed"][line.dash % 4];
      mark.style.borderColor = `var(--line-${line.colour % 6})`;
      row.append(mark, line.label);
      return row;
    }));
  }

  axes(pen, scale, width, height) {
    pen.strokeStyle = style("--rule");
    pen.fillStyle = style("--soft");
    pen.lineWidth = 1;
    const wide = scale.top - scale.bottom >= 1;
    const places = this.log && wide ? ticks(Math.ceil(scale.bottom), Math.floor(scale.top), 5).filter(Number.isInteger) : ticks(scale.bottom, scale.top, height / 46);
    pen.textAlign = "right";
    for (const at of places) {
      const value = this.log ? 10 ** at : at, y = scale.y(value);
      pen.beginPath();
      pen.moveTo(MARGIN.left, y);
      pen.lineTo(width - MARGIN.right, y);
      pen.stroke();
      pen.fillText(written(value), MARGIN.left - 8, y + 4);
    }
    pen.textAlign = "center";
    for (const at of ticks(scale.left, scale.right, width / 110)) pen.fillText(written(at), scale.x(at), height - 6);
  }

  nearest(line, step) {
    let low = 0, high = line.steps.length - 1;
    while (high - low > 1) { const middle = (low + high) >> 1; line.steps[middle] < step ? (low = middle) : (high = middle); }
    return step - line.steps[low] <= line.steps[high] - step ? low : high;
  }

  point(event) {
    this.pointed = { x: event.offsetX };
    this.draw();
  }

  mark(pen, scale, height) {
    const share = (this.pointed.x - MARGIN.left) / (scale.x(scale.right) - MARGIN.left);
    const step = scale.left + Math.min(1, Math.max(0, share)) * (scale.right - scale.left);
    const rows = [];
    let at = null;
    for (const line of this.lines.values()) {
      if (!line.values.length) continue;
      const i = this.nearest(line, step);
      at ??= line.steps[i];
      rows.push([line, line.values[i]]);
      if (this.log && line.values[i] <= 0) continue;
      pen.fillStyle = style(`--line-${line.colour % 6}`);
      pen.beginPath();
      pen.arc(scale.x(line.steps[i]), scale.y(line.values[i]), 3.5, 0, 7);
      pen.fill();
    }
    pen.strokeStyle = style("--soft");
    pen.globalAlpha = 0.5;
    pen.beginPath();
    pen.moveTo(scale.x(at), MARGIN.top);
    pen.lineTo(scale.x(at), height - MARGIN.bottom);
    pen.stroke();
    pen.globalAlpha = 1;
    this.tip.replaceChildren(`step ${at.toLocaleString("en")}`, ...rows.map(([line, value]) => {
      const row = document.createElement("div"), bold = document.createElement("b");
      bold.textContent = Number(value.toPrecision(5));
      row.append(`${line.label} `, bold);
      row.style.color = style(`--line-${line.colour % 6}`);
      return row;
    }));
    this.tip.hidden = false;
    const beside = scale.x(at) + 14, over = beside + this.tip.offsetWidth > this.element.clientWidth;
    this.tip.style.left = `${over ? Math.max(0, scale.x(at) - 14 - this.tip.offsetWidth) : beside}px`;
    this.tip.style.top = "34px";
  }
}
