// Rollouts and their gradients (kernels.py). A group has a tile of cells, a lane a cell of every 32; warps share the gates
// of a level. CELLS (of a tile) and WARPS are words of the compiler's command.

#define PARTS (CELLS / 32)  // of a block
#define LANES (32 * WARPS)
#define KEEPS 0  // what a cell does (data.py)
#define TAKES 1
#define CELL (LANE % 32)
#define WARP (LANE / 32)

// inputs: rows (position, channel) of blocks; cells past the tile are 0, so that nothing stale is ever summed
DEVICE void gather(GLOBAL float* values, GLOBAL const float* state, GLOBAL const int* neighbours, int channels, int start, int count, int cells, int columns) {
  for (int i = LANE; i < 9 * channels * CELLS; i += LANES) {
    int cell = i % CELLS, row = i / CELLS;
    float found = 0.0f;
    if (cell < count) found = state[(row % channels) * columns + neighbours[(row / channels) * cells + start + cell]];
    values[i] = found;
  }
  BARRIER;
}

// steps: (entries, 4) blocks a, b, out and the gate's number, level by level
DEVICE void forward(GLOBAL float* values, GLOBAL const int* steps, GLOBAL const int* levels, int depth, GLOBAL const float* coef) {
  for (int level = 0; level < depth; level++) {
    for (int entry = levels[level] + WARP; entry < levels[level + 1]; entry += WARPS) {
      GLOBAL const int* s = steps + 4 * entry;
      GLOBAL const float* c = coef + 4 * s[3];
      float c0 = c[0], c1 = c[1], c2 = c[2], c3 = c[3];
      for (int part = 0; part < PARTS; part++) {
        int at = 32 * part + CELL;
        float x = values[s[0] * CELLS + at], y = values[s[1] * CELLS + at];
        values[s[2] * CELLS + at] = FMA(FMA(c3, x, c2), y, FMA(c1, x, c0));
      }
    }
    BARRIER;
  }
}

// One CA step of every tile. fired: 0 where all cells fire.
KERNEL void forward_step(GLOBAL float* next, GLOBAL const float* state, GLOBAL float* memory, GLOBAL const float* coef, GLOBAL const int* steps, GLOBAL const int* levels, int depth, GLOBAL const int* outputs, GLOBAL const int* neighbours, GLOBAL const int* tiles, GLOBAL const uchar* fire, int fired, int channels, int grid, int cells, int columns, long size) {
  int start = tiles[GROUP], count = tiles[GROUP + 1] - start;
  GLOBAL float* values = memory + GROUP * size;
  gather(values, state, neighbours, channels, start, count, cells, columns);
  forward(values, steps, levels, depth, coef);
  for (int i = LANE; i < channels * CELLS; i += LANES) {
    int cell = i % CELLS, c = i / CELLS;
    if (cell >= count) continue;
    int column = start + cell;
    int does = fired ? fire[column % grid] : TAKES;
    float after = does == TAKES ? values[outputs[c] * CELLS + cell] : 0.0f;
    next[c * columns + column] = does == KEEPS ? state[c * columns + column] : after;
  }
}

// Σ (y − target)² of every tile of a state; adds: to what is there.
KERNEL void squared_errors(GLOBAL double* rows, int stride, GLOBAL const float* state, GLOBAL const float* targets, GLOBAL const int* tiles, int goals, int columns, int adds) {
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
  if (LANE == 0) rows[(i64)GROUP * stride] = adds ? rows[(i64)GROUP * stride] + loss : loss;
}

// The adjoint of a cell in a block: a chain over those who read it, last first. It begins with nothing (0), with its first
// reader (1), or with what lies there (2), as gpu.py says.
DEVICE float from_readers(GLOBAL const float* adjoint, GLOBAL const float* values, GLOBAL const float* coef, GLOBAL const int* readers, GLOBAL const int* starts, int begins, int block, int at) {
  float d = begins == 2 ? adjoint[block * CELLS + at] : 0.0f;
  for (int r = starts[block]; r < starts[block + 1]; r++) {
    GLOBAL const int* reader = readers + 3 * r;
    GLOBAL const float* c = coef + 4 * (reader[2] / 2);
    float slope = FMA(c[3], values[reader[1] * CELLS + at], (reader[2] & 1) ? c[2] : c[1]);
    float above = adjoint[reader[0] * CELLS + at];
    d = r == starts[block] && begins == 1 ? above * slope : FMA(above, slope, d);
  }
  return d;
}

// The way back of one CA step, t: from the gradients of the next state to those of the cell's inputs, and the gates' sums.
// back: (gates, 4) first block of the output, blocks of it, number, 0; readers: who reads a block, last first:
// (out block, other block, 2 · number + side)
KERNEL void backward_step(GLOBAL float* sums, GLOBAL double* losses, GLOBAL float* patches, GLOBAL const float* patches_after, GLOBAL float* passed, GLOBAL const float* passed_after, GLOBAL const float* state, GLOBAL float* memory, GLOBAL float* adjoints, GLOBAL const float* coef, GLOBAL const int* steps, GLOBAL const int* levels, int depth, GLOBAL const int* gates, GLOBAL const int* gate_levels, GLOBAL const int* readers, GLOBAL const int* reader_starts, GLOBAL const uchar* begins, GLOBAL const int* outputs, GLOBAL const int* neighbours, GLOBAL const int* seats, GLOBAL const float* targets, GLOBAL const int* tiles, GLOBAL const uchar* fire, int fired, int channels, int goals, int grid, int cells, int columns, long size, int count_gates, int last, GLOBAL const float* following, int judged) {
  SHARED double board[LANES];
  SHARED float boards[4 * LANES];
  int start = tiles[GROUP], count = tiles[GROUP + 1] - start;
  GLOBAL float* values = memory + GROUP * size;
  GLOBAL float* adjoint = adjoints + GROUP * size;
  gather(values, state, neighbours, channels, start, count, cells, columns);
  forward(values, steps, levels, depth, coef);
  if (last) {
    for (int i = LANE; i < channels * CELLS; i += LANES) {
      int cell = i % CELLS, c = i / CELLS, column = start + cell;
      if (cell >= count || !fired || fire[column % grid] == TAKES) continue;
      values[outputs[c] * CELLS + cell] = fire[column % grid] == KEEPS ? state[c * columns + column] : 0.0f;
    }
    BARRIER;
    double loss = 0.0;
    for (int c = 0; c < channels; c++) {
      double sum = 0.0;
      for (int part = 0; part < PARTS; part++) {
        int cell = 32 * part + CELL;
        float slope = 0.0f;
        if (c < goals && cell < count) slope = values[outputs[c] * CELLS + cell] - targets[c * columns + start + cell];
        sum = FMA64((double)slope, (double)slope, sum);
        if (WARP == 0) adjoint[outputs[c] * CELLS + cell] = slope + slope;
      }
      if (c < goals) loss = loss + sum_lanes(board, sum);
    }
    if (LANE == 0) losses[GROUP] = loss;
  } else {
    for (int i = LANE; i < channels * CELLS; i += LANES) {
      int cell = i % CELLS, c = i / CELLS;
      float total = 0.0f;
      if (cell < count) {
        total = patches_after[seats[start + cell] + c * CELLS];
        for (int p = 1; p < 9; p++) total = total + patches_after[seats[p * cells + start + cell] + (p * channels + c) * CELLS];
        if (fired) total = total + passed_after[c * columns + start + cell];
        if (judged && c < goals) {
          float slope = following[c * columns + start + cell] - targets[c * columns + start + cell];
          total = total + (slope + slope);
        }
      }
      adjoint[outputs[c] * CELLS + cell] = total;
    }
    if (judged) {
      double loss = 0.0;
      for (int c = 0; c < goals; c++) {
        double sum = 0.0;
        for (int part = 0; part < PARTS; part++) {
          int cell = 32 * part + CELL;
          float slope = cell < count ? following[c * columns + start + cell] - targets[c * columns + start + cell] : 0.0f;
          sum = FMA64((double)slope, (double)slope, sum);
        }
        loss = loss + sum_lanes(board, sum);
      }
      if (LANE == 0) losses[GROUP] = losses[GROUP] + loss;
    }
  }
  BARRIER;
  if (fired) {
    for (int i = LANE; i < channels * CELLS; i += LANES) {
      int cell = i % CELLS, c = i / CELLS, column = start + cell;
      if (cell >= count) continue;
      int does = fire[column % grid];
      passed[c * columns + column] = does == KEEPS ? adjoint[outputs[c] * CELLS + cell] : 0.0f;
      if (does != TAKES) adjoint[outputs[c] * CELLS + cell] = 0.0f;
    }
    BARRIER;
  }
  GLOBAL float* mine = sums + (i64)GROUP * 4 * count_gates;
  for (int level = depth - 1; level >= 0; level--) {
    int first = gate_levels[level], end = gate_levels[level + 1];
    for (int round = first; round < end; round += WARPS) {  // all warps come to the sum together
      int own = round + WARP < end;
      GLOBAL const int* gate = gates + 4 * (own ? round + WARP : first);
      float t0 = 0.0f, t1 = 0.0f, t2 = 0.0f, t3 = 0.0f;
      for (int item = 0; own && item < gate[1] * PARTS; item++) {
        int block = gate[0] + item / PARTS, at = 32 * (item % PARTS) + CELL;
        float d = from_readers(adjoint, values, coef, readers, reader_starts, begins[block], block, at);
        adjoint[block * CELLS + at] = d;
        // What the gate saw: its inputs are in the list of the way there.
        GLOBAL const int* s = steps + 4 * (gate[3] + item / PARTS);
        float x = values[s[0] * CELLS + at], y = values[s[1] * CELLS + at], dx = d * x;
        if (item == 0) {
          t0 = d; t1 = dx; t2 = d * y; t3 = dx * y;
        } else {
          t0 = t0 + d; t1 = t1 + dx; t2 = FMA(d, y, t2); t3 = FMA(dx, y, t3);
        }
      }
      float sum = sum_four(boards, t0, t1, t2, t3);
      if (own && CELL < 4) {
        int place = 4 * gate[2] + CELL;
        mine[place] = (last ? 0.0f : mine[place]) + sum;
      }
    }
    BARRIER;
  }
  for (int i = LANE; i < 9 * channels * CELLS; i += LANES) {
    int block = i / CELLS, at = i % CELLS;
    float d = from_readers(adjoint, values, coef, readers, reader_starts, begins[block], block, at);
    patches[(i64)GROUP * 9 * channels * CELLS + i] = d;
  }
}
