// Rollouts and their gradients (kernels.py), a level of the circuit at a time (levels.py). A tile has CELLS cells, lane l of the
// tree of its sums the cells l, l + 32, …; a group has SHARE lanes of it, such that they meet first in that tree (at the distances
// 16, 2 and, if there are eight, 1), and so COUNT cells, four of them a quad. The values of a block lie at its place, quad by quad.
// Threads work in rounds: in each a thread has four cells of one gate, and what it will need two rounds later is on its way from
// memory meanwhile. CELLS, SHARE, and IN_ROOM, if values lie on the chip, are words of the compiler's command.

#define PARTS (CELLS / 32)
#define COUNT (SHARE * PARTS)
#define QUADS (COUNT / 4)
#define SHARES (32 / SHARE)
#define AT(place, quad) ((quad) * places + (place))  // in fours
#define NUMBER(place, i) (4 * AT(place, (i) / 4) + (i) % 4)  // the i-th cell's

#ifdef IN_ROOM
#define SPACE LOCAL
#define VALUES room
#else
#define SPACE GLOBAL
#define VALUES ((GLOBAL float4*)memory + (i64)GROUP * (size / 4))
#endif

// Which cell of the tile the group's i-th is.
DEVICE int cell_of(int i) {
  int share = GROUP % SHARES, p = i % SHARE, part = i / SHARE;
#if SHARE == 8
  return 32 * part + (p & 3) + ((p >> 2) << 4) + ((share & 1) << 3) + ((share >> 1) << 2);
#else
  return 32 * part + ((p & 1) << 1) + ((p >> 1) << 4) + (share & 1) + ((share & 2) << 2) + (share & 4);
#endif
}

// The inputs, places 0 … of the room; cells past the tile are 0, so that nothing stale is ever summed.
DEVICE void gather(SPACE float* values, int places, GLOBAL const float* state, GLOBAL const int* neighbours, int channels, int start, int count, int cells, int columns) {
  for (int i = LANE; i < 9 * channels * COUNT; i += GROUP_SIZE) {
    int cell = cell_of(i % COUNT), row = i / COUNT;
    float found = 0.0f;
    if (cell < count) found = state[(row % channels) * columns + neighbours[(row / channels) * cells + start + cell]];
    values[NUMBER(row, i % COUNT)] = found;
  }
  BARRIER;
}

DEVICE float4 floats_of(int4 bits) {
  float4 found;
  found.x = FLOAT_OF(bits.x);
  found.y = FLOAT_OF(bits.y);
  found.z = FLOAT_OF(bits.z);
  found.w = FLOAT_OF(bits.w);
  return found;
}

DEVICE float gate(float4 c, float x, float y) {
  return FMA(FMA(c.w, x, c.z), y, FMA(c.y, x, c.x));
}

// steps: (rounds, width, 8) places of a, b and the output, whether all must wait after this round, and the bits of the four
// coefficients. Who has nothing to do writes to a place that nobody reads.
DEVICE void forward(SPACE float4* values, int places, GLOBAL const int4* steps, int rounds, int width) {
  int item = LANE / QUADS, quad = LANE % QUADS, own = item < width;
  GLOBAL const int4* mine = steps + 2 * (own ? item : 0);
  int4 p0 = mine[0], c0 = mine[1], p1 = p0, c1 = c0, p2 = p0, c2 = c0;
  if (rounds > 1) { p1 = mine[2 * width]; c1 = mine[2 * width + 1]; }
  for (int round = 0; round < rounds; round++) {
    if (round + 2 < rounds) { p2 = mine[2 * width * (round + 2)]; c2 = mine[2 * width * (round + 2) + 1]; }
    if (own) {
      float4 c = floats_of(c0), x = values[AT(p0.x, quad)], y = values[AT(p0.y, quad)], out;
      out.x = gate(c, x.x, y.x);
      out.y = gate(c, x.y, y.y);
      out.z = gate(c, x.z, y.z);
      out.w = gate(c, x.w, y.w);
      values[AT(p0.z, quad)] = out;
    }
    if (p0.w) BARRIER;
    p0 = p1; c0 = c1; p1 = p2; c1 = c2;
  }
}

// Tables with this step's coefficients in them. rows: a, b, out, number + 1 and, in the sign, whether to wait; into 8 numbers.
KERNEL void spread_steps(GLOBAL int* steps, GLOBAL const int* rows, GLOBAL const float* coef, int count) {
  int i = GROUP * GROUP_SIZE + LANE;
  if (i >= count) return;
  GLOBAL int* own = steps + 8 * i;
  int which = rows[4 * i + 3], number = (which < 0 ? -which : which) - 1;
  for (int k = 0; k < 3; k++) own[k] = rows[4 * i + k];
  own[3] = which < 0;
  for (int k = 0; k < 4; k++) own[4 + k] = BITS_OF(coef[4 * number + k]);
}

// rows: reader's adjoint, other input, 2 · number + side, 0; into: the first two, slope = [2] + [3] · other
KERNEL void spread_readers(GLOBAL int* readers, GLOBAL const int* rows, GLOBAL const float* coef, int count) {
  int i = GROUP * GROUP_SIZE + LANE;
  if (i >= count) return;
  int which = rows[4 * i + 2];
  GLOBAL const float* c = coef + 4 * (which / 2);
  readers[4 * i] = rows[4 * i];
  readers[4 * i + 1] = rows[4 * i + 1];
  readers[4 * i + 2] = BITS_OF((which & 1) ? c[2] : c[1]);
  readers[4 * i + 3] = BITS_OF(c[3]);
}

// One CA step of every tile. outputs: places; fired: 0 where all cells fire.
KERNEL void forward_step(GLOBAL float* next, GLOBAL const float* state, GLOBAL float* memory, GLOBAL const int* steps, int rounds, int width, GLOBAL const int* outputs, GLOBAL const int* neighbours, GLOBAL const int* tiles, GLOBAL const uchar* fire, int fired, int channels, int grid, int cells, int columns, int places, int size, ROOM room) {
  SPACE float4* fours = VALUES;
  SPACE float* values = (SPACE float*)fours;
  int tile = GROUP / SHARES, start = tiles[tile], count = tiles[tile + 1] - start;
  gather(values, places, state, neighbours, channels, start, count, cells, columns);
  forward(fours, places, (GLOBAL const int4*)steps, rounds, width);
  for (int i = LANE; i < channels * COUNT; i += GROUP_SIZE) {
    int cell = cell_of(i % COUNT), c = i / COUNT;
    if (cell >= count) continue;
    int column = start + cell;
    int keeps = fired && !fire[column % grid];
    next[c * columns + column] = keeps ? state[c * columns + column] : values[NUMBER(outputs[c], i % COUNT)];
  }
}

// Σ (y − target)² of every tile of a state.
KERNEL void squared_errors(GLOBAL double* rows, int stride, GLOBAL const float* state, GLOBAL const float* targets, GLOBAL const int* tiles, int goals, int columns) {
  SHARED double board[32];
  int start = tiles[GROUP], count = tiles[GROUP + 1] - start;
  double loss = 0.0;
  for (int c = 0; c < goals; c++) {
    double sum = 0.0;
    for (int cell = LANE; cell < CELLS; cell += 32) {
      float error = cell < count ? state[c * columns + start + cell] - targets[c * columns + start + cell] : 0.0f;
      sum = FMA64((double)error, (double)error, sum);
    }
    loss = loss + sum_lanes(board, sum);
  }
  if (LANE == 0) rows[(i64)GROUP * stride] = loss;
}

// The adjoint of four cells of a block: d, and a chain over those who read it, last first; the first of them is `one`.
DEVICE float4 from_readers(float4 d, SPACE const float4* values, int places, GLOBAL const int4* readers, int4 one, int first, int last, int quad) {
  UNROLL_4
  for (int r = first; r < last; r++) {
    if (r > first) one = readers[r];
    float4 above = values[AT(one.x, quad)], other = values[AT(one.y, quad)];
    float flat = FLOAT_OF(one.z), steep = FLOAT_OF(one.w);
    d.x = FMA(above.x, FMA(steep, other.x, flat), d.x);
    d.y = FMA(above.y, FMA(steep, other.y, flat), d.y);
    d.z = FMA(above.z, FMA(steep, other.z, flat), d.z);
    d.w = FMA(above.w, FMA(steep, other.w, flat), d.w);
  }
  return d;
}

// Four sums of a gate, of the cells in a quad each
DEVICE void add_up(float4* t, float4 d, float4 x, float4 y, int begin) {
  float4 dx;
  dx.x = d.x * x.x; dx.y = d.y * x.y; dx.z = d.z * x.z; dx.w = d.w * x.w;
  if (begin) {
    t[0] = d;
    t[1] = dx;
    t[2].x = d.x * y.x; t[2].y = d.y * y.y; t[2].z = d.z * y.z; t[2].w = d.w * y.w;
    t[3].x = dx.x * y.x; t[3].y = dx.y * y.y; t[3].z = dx.z * y.z; t[3].w = dx.w * y.w;
  } else {
    t[0].x = t[0].x + d.x; t[0].y = t[0].y + d.y; t[0].z = t[0].z + d.z; t[0].w = t[0].w + d.w;
    t[1].x = t[1].x + dx.x; t[1].y = t[1].y + dx.y; t[1].z = t[1].z + dx.z; t[1].w = t[1].w + dx.w;
    t[2].x = FMA(d.x, y.x, t[2].x); t[2].y = FMA(d.y, y.y, t[2].y); t[2].z = FMA(d.z, y.z, t[2].z); t[2].w = FMA(d.w, y.w, t[2].w);
    t[3].x = FMA(dx.x, y.x, t[3].x); t[3].y = FMA(dx.y, y.y, t[3].y); t[3].z = FMA(dx.z, y.z, t[3].z); t[3].w = FMA(dx.w, y.w, t[3].w);
  }
}

// The SHARE lanes of one sum, in the order in which they meet.
DEVICE float fold_share(float4 t, float4 u) {
#if SHARE == 8
  return ((t.x + u.x) + (t.z + u.z)) + ((t.y + u.y) + (t.w + u.w));
#else
  return (t.x + t.z) + (t.y + t.w);
#endif
}

// The four sums of a gate over the group's cells. items: a, b, the adjoint, of one channel after the other
DEVICE float4 sum_gate(SPACE const float4* values, int places, GLOBAL const int4* items, int many) {
  float4 t[4], u[4], found;
  for (int item = 0; item < many; item++) {
    int4 one = items[item];
    for (int part = 0; part < PARTS; part++) {
      int quad = part * (SHARE / 4);
      add_up(t, values[AT(one.z, quad)], values[AT(one.x, quad)], values[AT(one.y, quad)], item + part == 0);
#if SHARE == 8
      add_up(u, values[AT(one.z, quad + 1)], values[AT(one.x, quad + 1)], values[AT(one.y, quad + 1)], item + part == 0);
#endif
    }
  }
#if SHARE != 8
  for (int k = 0; k < 4; k++) u[k] = t[k];
#endif
  found.x = fold_share(t[0], u[0]);
  found.y = fold_share(t[1], u[1]);
  found.z = fold_share(t[2], u[2]);
  found.w = fold_share(t[3], u[3]);
  return found;
}

// The way back of one CA step: from the gradients of the next state to those of the cell's inputs, and the gates' sums over the
// group's cells (parts). next: the state after it; last: it is the last one, and the gradient is that of the loss. The first `most`
// threads have blocks, level by level down to the inputs; meanwhile the others sum up the gates of the level above.
// blocks: (rounds, width, 4) first reader, last, place of the adjoint (−1 − an input's number; or where nobody reads), what it
// begins with: nothing (0), its first reader (1), what lies there (2). levels: (depth + 1, 4) rounds and gates of each, in order.
KERNEL void backward_step(GLOBAL float* parts, GLOBAL float* patches, GLOBAL const float* patches_after, GLOBAL float* passed, GLOBAL const float* passed_after, GLOBAL const float* next, GLOBAL const float* state, GLOBAL float* memory, GLOBAL const int* steps, int rounds, int forward_width, GLOBAL const int* blocks, int width, int most, GLOBAL const int* levels, int depth, GLOBAL const int* gates, GLOBAL const int* items, GLOBAL const int* readers, int outputs_at, GLOBAL const int* neighbours, GLOBAL const int* seats, GLOBAL const float* targets, GLOBAL const int* tiles, GLOBAL const uchar* fire, int fired, int channels, int goals, int grid, int cells, int columns, int places, int size, int count_gates, int last, ROOM room) {
  SPACE float4* fours = VALUES;
  SPACE float* values = (SPACE float*)fours;
  int tile = GROUP / SHARES, start = tiles[tile], count = tiles[tile + 1] - start, inputs = 9 * channels;
  for (int i = LANE; i < channels * COUNT; i += GROUP_SIZE) {
    int cell = cell_of(i % COUNT), c = i / COUNT, column = start + cell;
    float total = 0.0f;
    if (cell < count) {
      if (last) {
        if (c < goals) {
          float slope = next[c * columns + column] - targets[c * columns + column];
          total = slope + slope;
        }
      } else {
        total = patches_after[seats[column] + c * CELLS];
        UNROLL
        for (int p = 1; p < 9; p++) total = total + patches_after[seats[p * cells + column] + (p * channels + c) * CELLS];
        if (fired) total = total + passed_after[c * columns + column];
      }
      if (fired) {
        int fires = fire[column % grid];
        passed[c * columns + column] = fires ? 0.0f : total;
        if (!fires) total = 0.0f;
      }
    }
    values[NUMBER(outputs_at + c, i % COUNT)] = total;
  }
  gather(values, places, state, neighbours, channels, start, count, cells, columns);
  forward(fours, places, (GLOBAL const int4*)steps, rounds, forward_width);
  GLOBAL const int4* read_by = (GLOBAL const int4*)readers;
  GLOBAL const int4* level_of = (GLOBAL const int4*)levels;
  GLOBAL float4* own = (GLOBAL float4*)parts + (i64)GROUP * count_gates;
  int quad = LANE % QUADS, item = LANE / QUADS, works = LANE < most && item < width, round = 0;
  GLOBAL const int4* mine = (GLOBAL const int4*)blocks + (works ? item : 0);
  int4 b0 = mine[0], b1 = mine[width], b2 = b1, now = level_of[0], after;
  int4 r0 = read_by[b0.x], r1;
  for (int level = 0; level <= depth; level++) {
    after = level_of[level < depth ? level + 1 : depth];
    if (LANE < most) {
      for (; round < now.x; round++) {
        b2 = mine[width * (round + 2)];
        r1 = read_by[b1.x];
        if (works) {
          float4 d;
          d.x = d.y = d.z = d.w = b0.w == 1 ? -0.0f : 0.0f;  // −0 + x · y is x · y, rounded
          if (b0.w == 2) d = fours[AT(b0.z, quad)];
          d = from_readers(d, fours, places, read_by, r0, b0.x, b0.y, quad);
          if (b0.z >= 0) {
            fours[AT(b0.z, quad)] = d;
          } else {
            GLOBAL float* patch = patches + ((i64)tile * inputs - 1 - b0.z) * CELLS;
            patch[cell_of(4 * quad)] = d.x;
            patch[cell_of(4 * quad + 1)] = d.y;
            patch[cell_of(4 * quad + 2)] = d.z;
            patch[cell_of(4 * quad + 3)] = d.w;
          }
        }
        b0 = b1; b1 = b2; r0 = r1;
      }
    } else {
      for (int g = now.y + LANE - most; g < now.z; g += GROUP_SIZE - most)
        own[g] = sum_gate(fours, places, (GLOBAL const int4*)items + gates[4 * g], gates[4 * g + 1]);
    }
    now = after;
    BARRIER;
  }
}

// sums (tiles, gates, 4) of a step: those of a tile's shares, in the order of the tree; added to those of later steps.
KERNEL void combine(GLOBAL float* sums, GLOBAL const float* parts, GLOBAL const int* gates, int count_gates, int last) {
  int i = GROUP * GROUP_SIZE + LANE, g = i / 4, k = i % 4;
  if (g >= count_gates) return;
  float s[SHARES];
  for (int j = 0; j < SHARES; j++) s[j] = parts[4 * (((i64)GROUP_Y * SHARES + j) * count_gates + g) + k];
  for (int n = SHARES / 2; n > 0; n /= 2)
    for (int j = 0; j < n; j++) s[j] = s[2 * j] + s[2 * j + 1];
  i64 at = 4 * ((i64)GROUP_Y * count_gates + gates[4 * g + 2]) + k;
  sums[at] = (last ? 0.0f : sums[at]) + s[0];
}

KERNEL void clear(GLOBAL float* x, int count) {
  int i = GROUP * GROUP_SIZE + LANE;
  if (i < count) x[i] = 0.0f;
}
