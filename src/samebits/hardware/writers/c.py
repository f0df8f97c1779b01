"""The cell as C: one header without dependencies, 64 cells a machine word, grids of any size.

A state is a plane a channel: a row of zeros or of wrapped cells above and below, a word at either end of a row. The
neighbour to the west is then a shift with a bit from the word before, and no cell knows where the border is.
"""

from __future__ import annotations

from samebits.hardware.cell import PERIODIC, Cell, next_name, port_name

OPERATIONS = (
    "UINT64_C(0)", "{a} & {b}", "{a} & ~{b}", "{a}", "{b} & ~{a}", "{b}", "{a} ^ {b}", "{a} | {b}",
    "~({a} | {b})", "~({a} ^ {b})", "~{b}", "{a} | ~{b}", "~{a}", "{b} | ~{a}", "~({a} & {b})", "~UINT64_C(0)",
)  # fmt: skip
ROWS = {-1: " - stride", 0: "", 1: " + stride"}
COLUMNS = {-1: "west", 0: "here", 1: "east"}

TEMPLATE = """\
/*
{about}
 *
 * A state is {NAME}_CHANNELS planes of {name}_plane(height, width) words, {listed} in this order:
 *   uint64_t *now = calloc({NAME}_CHANNELS * {name}_plane(height, width), sizeof *now), *then = calloc(the same);
 *   {name}_put(now, height, width, plane, y, x, 1);
 *   {name}_step(then, now, height, width, NULL);   one step; then swap the two
 * Outside the grid: {boundary}. fire, where not NULL, has a bit for every cell, row by row, (width + 63) / 64 words a
 * row: a cell whose bit is 0 keeps its state.
 */
#ifndef {NAME}_H
#define {NAME}_H
#include <stddef.h>
#include <stdint.h>

#define {NAME}_CHANNELS {count}

static inline size_t {name}_stride(size_t width) {{ return (width + 63) / 64 + 2; }}
static inline size_t {name}_plane(size_t height, size_t width) {{ return (height + 2) * {name}_stride(width); }}

static inline uint64_t *{name}_word(uint64_t *state, size_t height, size_t width, size_t plane, size_t y, size_t x) {{
  return state + plane * {name}_plane(height, width) + (y + 1) * {name}_stride(width) + 1 + x / 64;
}}
static inline int {name}_get(uint64_t *state, size_t height, size_t width, size_t plane, size_t y, size_t x) {{
  return *{name}_word(state, height, width, plane, y, x) >> x % 64 & 1;
}}
static inline void {name}_put(uint64_t *state, size_t height, size_t width, size_t plane, size_t y, size_t x,
                              int bit) {{
  uint64_t *word = {name}_word(state, height, width, plane, y, x), one = UINT64_C(1) << x % 64;
  *word = bit ? *word | one : *word & ~one;
}}

static inline uint64_t {name}_west(const uint64_t *p) {{ return p[0] << 1 | p[-1] >> 63; }}
static inline uint64_t {name}_here(const uint64_t *p) {{ return p[0]; }}
static inline uint64_t {name}_east(const uint64_t *p) {{ return p[0] >> 1 | p[1] << 63; }}

/* One row of 64 · words cells. */
static void {name}_row(uint64_t *restrict after, const uint64_t *restrict before, size_t words, size_t stride,
                       size_t plane) {{
{pointers}
  for (size_t at = 0; at < words; at++) {{
{body}
  }}
}}

/* The border of one plane: {boundary}. */
static void {name}_border(uint64_t *p, size_t height, size_t width) {{
  const size_t stride = {name}_stride(width), words = stride - 2;
  const uint64_t tail = width % 64 ? (UINT64_C(1) << width % 64) - 1 : ~UINT64_C(0);
  for (size_t y = 1; y <= height; y++) {{
    uint64_t *row = p + y * stride + 1;
    row[words - 1] &= tail;
    row[-1] = row[words] = 0;
{wrap_row}  }}
  for (size_t i = 0; i < stride; i++) {{
    p[i] = {above};
    p[(height + 1) * stride + i] = {below};
  }}
}}

static void {name}_step(uint64_t *after, uint64_t *before, size_t height, size_t width, const uint64_t *fire) {{
  const size_t stride = {name}_stride(width), words = stride - 2, plane = {name}_plane(height, width);
  for (size_t k = 0; k < {NAME}_CHANNELS; k++) {name}_border(before + k * plane, height, width);
  for (size_t y = 1; y <= height; y++)
    {name}_row(after + y * stride + 1, before + y * stride + 1, words, stride, plane);
  for (size_t k = 0; k < {NAME}_CHANNELS; k++)
    for (size_t y = 1; y <= height; y++)
      for (size_t i = 0; i < words; i++) {{
        const size_t at = k * plane + y * stride + 1 + i;
        if (fire) after[at] = before[at] ^ ((before[at] ^ after[at]) & fire[(y - 1) * words + i]);
      }}
}}
#endif
"""

WRAP = """\
    row[-1] = (row[words - 1] >> (width - 1) % 64 & 1) << 63;
    if (width % 64) row[words - 1] |= (row[0] & 1) << width % 64; else row[words] = row[0] & 1;
"""


def write(cell: Cell) -> bytes:
    names, periodic = cell.node_names(), cell.boundary == PERIODIC
    places = {channel: k for k, channel in enumerate(cell.channels)}
    named = {node for op, a, b in cell.gates for node, name in ((a, "{a}"), (b, "{b}")) if name in OPERATIONS[op]}
    loaded = [spot for node, spot in enumerate(cell.inputs) if node in named or node in cell.outputs]
    body = []
    for position, channel in loaded:
        dy, dx = position // 3 - 1, position % 3 - 1
        load = f"{cell.name}_{COLUMNS[dx]}(c{channel} + at{ROWS[dy]})"
        body.append(f"const uint64_t {port_name(position, channel)} = {load};")
    body += [
        f"const uint64_t g{gate} = {OPERATIONS[op].format(a=names[a], b=names[b])};"
        for gate, (op, a, b) in enumerate(cell.gates)
    ]
    body += [
        f"{next_name(channel)}[at] = {names[node]};" for channel, node in zip(cell.channels, cell.outputs, strict=True)
    ]
    read = sorted({channel for _, channel in loaded})
    pointers = [f"const uint64_t *restrict c{channel} = before + {places[channel]} * plane;" for channel in read]
    pointers += [f"uint64_t *restrict {next_name(channel)} = after + {k} * plane;" for channel, k in places.items()]
    text = TEMPLATE.format(
        about="\n".join(f" * {line}".rstrip() for line in cell.about),
        name=cell.name, NAME=cell.name.upper(), count=len(cell.channels),
        listed=", ".join(f"c{channel}" for channel in cell.channels),
        boundary="the cells of the other side" if periodic else "zeros",
        pointers="\n".join(f"  {line}" for line in pointers),
        body="\n".join(f"    {line}" for line in body),
        wrap_row=WRAP if periodic else "",
        above="p[height * stride + i]" if periodic else "0",
        below="p[stride + i]" if periodic else "0",
    )  # fmt: skip
    return text.encode()
