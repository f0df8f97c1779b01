// Rollouts and their gradients (kernels.py), a level of the circuit at a time (levels.py). A tile has CELLS cells, lane l of the
// tree of its sums the cells l, l + 32, …; a group has SHARE lanes of it, such that they meet first in that tree (at the distances
// 16, 2 and, if there are eight, 1), and so COUNT cells. Their values lie beside each other, block by block, in the group's room;
// a thread has four cells of a gate. CELLS, SHARE, LANES (threads) and IN_ROOM, if that is on the chip, are words of the compiler's command.

#define PARTS (CELLS / 32)
#define COUNT (SHARE * PARTS)
#define QUADS (COUNT / 4)
#define SHARES (32 / SHARE)

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
DEVICE void gather(SPACE float* values, GLOBAL const float* state, GLOBAL const int* neighbours, int channels, int start, int count, int cells, int columns) {
  for (int i = LANE; i < 9 * channels * COUNT; i += LANES) {
    int cell = cell_of(i % COUNT), row = i / COUNT;
    float found = 0.0f;
    if (cell < count) found = state[(row % channels) * columns + neighbours[(row / channels) * cells + start + cell]];
    values[i] = found;
  }
  BARRIER;
}

DEVICE float gate(float4 c, float x, float y) {
  return FMA(FMA(c.w, x, c.z), y, FMA(c.y, x, c.x));
}

DEVICE float4 floats_of(int4 bits) {
  float4 found;
  found.x = FLOAT_OF(bits.x);
  found.y = FLOAT_OF(bits.y);
  found.z = FLOAT_OF(bits.z);
  found.w = FLOAT_OF(bits.w);
  return found;
}

// steps: (entries, 8) places of a, b and the output, 0, and the bits of the four coefficients. What a thread needs first of the next level is
// on its way while others finish this one.
DEVICE void forward(SPACE float4* values, GLOBAL const int4* steps, GLOBAL const int* levels, int depth) {
  int item = LANE / QUADS, quad = LANE % QUADS, end = levels[1];
  int4 places, bits;
  if (item < end) { places = steps[2 * item]; bits = steps[2 * item + 1]; }
  for (int level = 0; level < depth; level++) {
    while (item < end) {
      float4 c = floats_of(bits), x = values[places.x * QUADS + quad], y = values[places.y * QUADS + quad], out;
      out.x = gate(c, x.x, y.x);
      out.y = gate(c, x.y, y.y);
      out.z = gate(c, x.z, y.z);
      out.w = gate(c, x.w, y.w);
      values[places.z * QUADS + quad] = out;
      item += LANES / QUADS;
      if (item < end) { places = steps[2 * item]; bits = steps[2 * item + 1]; }
    }
    item = end + LANE / QUADS;
    if (level + 1 < depth) {
      end = levels[level + 2];
      if (item < end) { places = steps[2 * item]; bits = steps[2 * item + 1]; }
    }
    BARRIER;
  }
}

// Tables with this step's coefficients in them. rows of 4 ints: a, b, out, number; into 8: a, b, out, 0, coefficients.
KERNEL void spread_steps(GLOBAL int* steps, GLOBAL const int* rows, GLOBAL const float* coef, int count) {
  int i = GROUP * GROUP_SIZE + LANE;
  if (i >= count) return;
  GLOBAL int* own = steps + 8 * i;
  for (int k = 0; k < 3; k++) own[k] = rows[4 * i + k];
  for (int k = 0; k < 4; k++) own[4 + k] = BITS_OF(coef[4 * rows[4 * i + 3] + k]);
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
KERNEL void forward_step(GLOBAL float* next, GLOBAL const float* state, GLOBAL float* memory, GLOBAL const int* steps, GLOBAL const int* levels, int depth, GLOBAL const int* outputs, GLOBAL const int* neighbours, GLOBAL const int* tiles, GLOBAL const uchar* fire, int fired, int channels, int grid, int cells, int columns, int size, ROOM room) {
  SPACE float4* fours = VALUES;
  SPACE float* values = (SPACE float*)fours;
  int tile = GROUP / SHARES, start = tiles[tile], count = tiles[tile + 1] - start;
  gather(values, state, neighbours, channels, start, count, cells, columns);
  forward(fours, (GLOBAL const int4*)steps, levels, depth);
  for (int i = LANE; i < channels * COUNT; i += LANES) {
    int cell = cell_of(i % COUNT), c = i / COUNT;
    if (cell >= count) continue;
    int column = start + cell;
    int keeps = fired && !fire[column % grid];
    next[c * columns + column] = keeps ? state[c * columns + column] : values[outputs[c] * COUNT + i % COUNT];
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

// The adjoint of four cells of a block: a chain over those who read it, last first. It begins with nothing (0), with its first
// reader (1), or with what lies there (2), as levels.py says.
DEVICE float4 from_readers(float4 d, SPACE const float4* adjoints, SPACE const float4* values, GLOBAL const int4* readers, int first, int last, int begins, int quad) {
  for (int r = first; r < last; r++) {
    int4 one = readers[r];
    float4 above = adjoints[one.x * QUADS + quad], other = values[one.y * QUADS + quad], slope;
    float flat = FLOAT_OF(one.z), steep = FLOAT_OF(one.w);
    slope.x = FMA(steep, other.x, flat);
    slope.y = FMA(steep, other.y, flat);
    slope.z = FMA(steep, other.z, flat);
    slope.w = FMA(steep, other.w, flat);
    if (r == first && begins == 1) {
      d.x = above.x * slope.x; d.y = above.y * slope.y; d.z = above.z * slope.z; d.w = above.w * slope.w;
    } else {
      d.x = FMA(above.x, slope.x, d.x);
      d.y = FMA(above.y, slope.y, d.y);
      d.z = FMA(above.z, slope.z, d.z);
      d.w = FMA(above.w, slope.w, d.w);
    }
  }
  return d;
}

// What the SHARE lanes of four sums come to.
DEVICE float fold_share(const float* t) {
#if SHARE == 8
  return ((t[0] + t[4]) + (t[2] + t[6])) + ((t[1] + t[5]) + (t[3] + t[7]));
#else
  return (t[0] + t[2]) + (t[1] + t[3]);
#endif
}

// The four sums of a gate over the group's cells: entries first … + many, those of a channel each.
DEVICE void sum_gate(GLOBAL float4* out, SPACE const float* values, SPACE const float* adjoints, GLOBAL const int4* steps, GLOBAL const int* adjoint_places, int first, int many) {
  float t0[SHARE], t1[SHARE], t2[SHARE], t3[SHARE];
  for (int item = 0; item < many; item++) {
    int4 places = steps[2 * (first + item)];
    SPACE const float* xs = values + places.x * COUNT;
    SPACE const float* ys = values + places.y * COUNT;
    SPACE const float* ds = adjoints + adjoint_places[first + item] * COUNT;
    for (int part = 0; part < PARTS; part++)
      UNROLL
      for (int p = 0; p < SHARE; p++) {
        float d = ds[part * SHARE + p], x = xs[part * SHARE + p], y = ys[part * SHARE + p], dx = d * x;
        if (item == 0 && part == 0) {
          t0[p] = d; t1[p] = dx; t2[p] = d * y; t3[p] = dx * y;
        } else {
          t0[p] = t0[p] + d; t1[p] = t1[p] + dx; t2[p] = FMA(d, y, t2[p]); t3[p] = FMA(dx, y, t3[p]);
        }
      }
  }
  float4 sums;
  sums.x = fold_share(t0);
  sums.y = fold_share(t1);
  sums.z = fold_share(t2);
  sums.w = fold_share(t3);
  *out = sums;
}

// The way back of one CA step: from the gradients of the next state to those of the cell's inputs, and the gates' sums over the
// group's cells (parts). next: the state after it; last: it is the last one, and the gradient is that of the loss.
KERNEL void backward_step(GLOBAL float* parts, GLOBAL float* patches, GLOBAL const float* patches_after, GLOBAL float* passed, GLOBAL const float* passed_after, GLOBAL const float* next, GLOBAL const float* state, GLOBAL float* memory, GLOBAL const int* steps, GLOBAL const int* levels, int depth, GLOBAL const int* gates, GLOBAL const int* gate_levels, GLOBAL const int* readers, GLOBAL const int* reader_starts, GLOBAL const uchar* begins, GLOBAL const int* adjoint_places, GLOBAL const int* neighbours, GLOBAL const int* seats, GLOBAL const float* targets, GLOBAL const int* tiles, GLOBAL const uchar* fire, int fired, int channels, int goals, int grid, int cells, int columns, int blocks, int size, int count_gates, int last, ROOM room) {
  SPACE float4* fours = VALUES;
  SPACE float* values = (SPACE float*)fours;
  SPACE float* adjoints = values + blocks * COUNT;  // the first channels' are the outputs'
  SPACE float4* adjoint_fours = (SPACE float4*)adjoints;
  GLOBAL const int4* step_fours = (GLOBAL const int4*)steps;
  GLOBAL const int4* reader_fours = (GLOBAL const int4*)readers;
  int tile = GROUP / SHARES, start = tiles[tile], count = tiles[tile + 1] - start, inputs = 9 * channels;
  for (int i = LANE; i < channels * COUNT; i += LANES) {
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
        for (int p = 1; p < 9; p++) total = total + patches_after[seats[p * cells + column] + (p * channels + c) * CELLS];
        if (fired) total = total + passed_after[c * columns + column];
      }
      if (fired) {
        int fires = fire[column % grid];
        passed[c * columns + column] = fires ? 0.0f : total;
        if (!fires) total = 0.0f;
      }
    }
    adjoints[i] = total;
  }
  gather(values, state, neighbours, channels, start, count, cells, columns);
  forward(fours, step_fours, levels, depth);
  int quad = LANE % QUADS;
  GLOBAL float4* own = (GLOBAL float4*)parts + (i64)GROUP * count_gates;
  for (int level = depth; level >= 0; level--) {
    if (level < depth)
      for (int g = gate_levels[level] + LANE; g < gate_levels[level + 1]; g += LANES)
        sum_gate(own + g, values, adjoints, step_fours, adjoint_places + inputs, gates[4 * g], gates[4 * g + 1]);
    int first = level ? inputs + levels[level - 1] : 0, end = level ? inputs + levels[level] : inputs;
    for (int block = first + LANE / QUADS; block < end; block += LANES / QUADS) {
      int begin = begins[block], place = adjoint_places[block];
      float4 d;
      d.x = d.y = d.z = d.w = 0.0f;
      if (begin == 2) d = adjoint_fours[place * QUADS + quad];
      d = from_readers(d, adjoint_fours, fours, reader_fours, reader_starts[block], reader_starts[block + 1], begin, quad);
      if (level) {
        adjoint_fours[place * QUADS + quad] = d;
      } else {
        GLOBAL float* patch = patches + ((i64)tile * inputs + block) * CELLS;
        patch[cell_of(4 * quad)] = d.x;
        patch[cell_of(4 * quad + 1)] = d.y;
        patch[cell_of(4 * quad + 2)] = d.z;
        patch[cell_of(4 * quad + 3)] = d.w;
      }
    }
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
