// The grid on two canvases: one pixel a cell below, enlarged; above it hairlines, the brush and the cell looked at.

const COLOURS = ["#14181f", "#e5484d", "#3fa45b", "#f2cf1d", "#4a6fe3", "#cf57c8", "#2cb5c8", "#f6f4ee"]; // by r, g, b
const HAIRLINES_FROM = 7; // pixels a cell

// A CSS colour as a pixel of an image's 32-bit view.
function pixelOf(colour) {
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  return (255 << 24 | b << 16 | g << 8 | r) >>> 0;
}

export class Board {
  constructor(stage, world) {
    this.world = world;
    this.stage = stage;
    [this.cells, this.marks] = [document.createElement("canvas"), document.createElement("canvas")];
    this.cells.className = "cells";
    this.marks.className = "marks";
    this.marks.tabIndex = 0;
    this.marks.setAttribute("role", "application");
    this.marks.setAttribute("aria-label", "the grid of cells: arrow keys move, enter uses the tool");
    this.frame = document.createElement("div");
    this.frame.className = "frame";
    this.frame.append(this.cells, this.marks);
    stage.replaceChildren(this.frame);
    this.context = this.cells.getContext("2d", { alpha: false });
    this.fit();
  }

  // After a change of the grid's size, of the room there is, or of the colours.
  fit() {
    const { height, width } = this.world;
    const room = this.stage.clientWidth || 300, most = Math.max(280, 0.74 * window.innerHeight);
    const free = Math.min(room / width, most / height);
    this.scale = free >= 3 ? Math.floor(free) : free;
    if (this.cells.width !== width || this.cells.height !== height || !this.image) {
      [this.cells.width, this.cells.height] = [width, height];
      this.image = this.context.createImageData(width, height);
      this.pixels = new Uint32Array(this.image.data.buffer);
    }
    const ratio = window.devicePixelRatio || 1;
    this.frame.style.width = `${this.scale * width}px`;
    this.frame.style.height = `${this.scale * height}px`;
    [this.marks.width, this.marks.height] = [this.scale * width * ratio, this.scale * height * ratio];
    this.marked = null; // nothing: a canvas of another size is empty
    const style = getComputedStyle(this.stage), named = (name) => style.getPropertyValue(name).trim();
    this.plain = [pixelOf(named("--cell-0")), pixelOf(named("--cell-1"))];
    this.coloured = COLOURS.map(pixelOf);
    this.lines = { one: named("--hairline"), picture: "#2a303a", accent: named("--accent") };
  }

  // channels: one, or red, green and blue.
  draw(channels) {
    const { world, pixels } = this;
    const colours = channels.length === 1 ? this.plain : this.coloured;
    const [r, g, b] = channels.map((channel) => world.automaton.channels.indexOf(channel));
    for (let y = 0, i = 0; y < world.height; y++) {
      for (let x = 0; x < world.width; x += 32) {
        const end = Math.min(32, world.width - x), one = world.words[world.wordOf(y, x, r)];
        if (channels.length === 1) {
          for (let bit = 0; bit < end; bit++, i++) pixels[i] = colours[one >>> bit & 1];
          continue;
        }
        const two = world.words[world.wordOf(y, x, g)], three = world.words[world.wordOf(y, x, b)];
        for (let bit = 0; bit < end; bit++, i++) {
          pixels[i] = colours[(one >>> bit & 1) | (two >>> bit & 1) << 1 | (three >>> bit & 1) << 2];
        }
      }
    }
    this.context.putImageData(this.image, 0, 0);
  }

  // cell: {y, x} looked at; block: {top, left, height, width} that the tool would change, or null.
  mark(cell, block, picture) {
    const asked = JSON.stringify([cell, block, picture]);
    if (asked === this.marked) return;
    this.marked = asked;
    const ratio = window.devicePixelRatio || 1, s = this.scale * ratio, pen = this.marks.getContext("2d");
    const { width, height } = this.world;
    pen.clearRect(0, 0, this.marks.width, this.marks.height);
    if (this.scale >= HAIRLINES_FROM) {
      pen.fillStyle = picture ? this.lines.picture : this.lines.one;
      for (let x = 1; x < width; x++) pen.fillRect(Math.round(x * s), 0, 1, this.marks.height);
      for (let y = 1; y < height; y++) pen.fillRect(0, Math.round(y * s), this.marks.width, 1);
    }
    pen.strokeStyle = this.lines.accent;
    const outline = (top, left, tall, broad, thick) => {
      pen.lineWidth = thick * ratio;
      pen.strokeRect(left * s, top * s, broad * s, tall * s);
    };
    if (cell) {
      pen.globalAlpha = 0.55;
      outline(cell.y - 1, cell.x - 1, 3, 3, 1);
      pen.globalAlpha = 1;
      outline(cell.y, cell.x, 1, 1, 2);
    }
    if (block) {
      pen.setLineDash([4 * ratio, 3 * ratio]);
      outline(block.top, block.left, block.height, block.width, 1.5);
      pen.setLineDash([]);
    }
  }

  // The cell under a pointer event; it may lie outside the grid while something is dragged.
  cellAt(event) {
    const box = this.marks.getBoundingClientRect();
    return {
      y: Math.floor((event.clientY - box.top) / box.height * this.world.height),
      x: Math.floor((event.clientX - box.left) / box.width * this.world.width),
    };
  }
}
