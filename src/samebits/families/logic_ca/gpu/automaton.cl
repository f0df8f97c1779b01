// Rollouts and their gradients (kernels.py), by a group of threads for some cells of a tile. A tile has CELLS cells, lane l of the
// tree of its sums the cells l, l + 32, …; a group has SHARE lanes of it, such that they meet first in that tree (at the distances
// 16, 2, 1, 8, as many as it takes), and so COUNT cells, four of them a quad. The values of a block lie at its place, quad by quad.
// Warps go through rows, pass by pass (rows.py): a slot of QUADS threads has a gate, or readers of a block, a thread a gate's
// sums. Rows are on their way from memory while others are done, so many at once: GATES, BLOCKS, SUMS. CELLS, SHARE, WARPS, KEPT,
// and IN_ROOM, if values lie on the chip, are words of the compiler's command, too.

#define PARTS (CELLS / 32)
#define COUNT (SHARE * PARTS)
#define QUADS (COUNT / 4)
#define SHARES (32 / SHARE)
#define SLOTS (32 / QUADS)  // of a warp
#define SLOT (LANE % 32 / QUADS)
#define QUAD (LANE % 32 % QUADS)
#define PAIRS (SHARE < 8 ? 1 : SHARE / 8)  // of quads, whose sums are folded first
#define HAS_SLOT (32 % QUADS == 0 || SLOT < SLOTS)
#define OWN_SLOT (HAS_SLOT ? SLOT : 0)
#define NUMBER(place, i) ((place) * COUNT + (i))  // the i-th cell's
#define FIELD(word, n) ((int)((word) >> (FIELD_BITS * (n))) & ((1 << FIELD_BITS) - 1))
#define SOME 4  // loads of a thread that are on their way together, where nothing else says how many

#ifdef IN_ROOM
#define SPACE LOCAL
#define VALUES room
#define BOARD_AT (run.size / 4)
#else
#define SPACE GLOBAL
#define BOARD_AT 0
#define VALUES ((GLOBAL float4*)memory + (i64)GROUP * (run.size / 4))
#endif

// A CA step: how many passes; whether there is a mask of who fires; channels; cells of a grid, of all grids, and columns of a
// state; floats of a group's memory
typedef struct {
  int passes, fired, channels, grid, cells, columns, size;
} Forward;

// What is drawn: CA steps of a grid, whether all cells fire, the limit below which words do; the CA step and the side of the square
// that dies, 0 for none; seed and purpose
typedef struct {
  long ca_steps, height, width, always, limit, struck, side, seed, purpose;
} Drawing;

// The cells start … start + count of a state, whose neighbours are looked at
typedef struct {
  int channels, cells, columns, start, count;
} Cells;

DEVICE Cells cells_of(int channels, int cells, int columns, int start, int count) {
  Cells made;
  made.channels = channels;
  made.cells = cells;
  made.columns = columns;
  made.start = start;
  made.count = count;
  return made;
}

// Which cell of the tile the group's i-th is.
DEVICE int cell_of(int i) {
  int share = GROUP % SHARES, p = i % SHARE, part = i / SHARE;
#if SHARE == 16
  return 32 * part + (p & 3) + ((p & 4) << 2) + (p & 8) + (share << 2);
#elif SHARE == 8
  return 32 * part + (p & 3) + ((p >> 2) << 4) + ((share & 1) << 3) + ((share >> 1) << 2);
#else
  return 32 * part + ((p & 1) << 1) + ((p >> 1) << 4) + (share & 1) + ((share & 2) << 2) + (share & 4);
#endif
}

// The inputs, places 0 … of the room, by the first so many threads; cells past the tile are 0, so that nothing stale is ever summed.
DEVICE void gather(SPACE float* values, GLOBAL const float* state, GLOBAL const int* neighbours, Cells own, int threads) {
  int channels = own.channels, many = 9 * channels * COUNT;
  NO_UNROLL
  for (int first = LANE; first < many; first += SOME * threads) {
    int from[SOME];
    float found[SOME];
    UNROLL
    for (int k = 0; k < SOME; k++) {
      int i = first + k * threads, cell = cell_of(i % COUNT), row = i / COUNT;
      from[k] = i < many && cell < own.count ? (row % channels) * own.columns + neighbours[(row / channels) * own.cells + own.start + cell] : -1;
    }
    UNROLL
    for (int k = 0; k < SOME; k++) found[k] = from[k] < 0 ? 0.0f : state[from[k]];
    UNROLL
    for (int k = 0; k < SOME; k++)
      if (first + k * threads < many) values[first + k * threads] = found[k];
  }
}

// How many rows every pass has, of every warp; there after WAIT_FOR_LOT and a barrier.
DEVICE void send_counts(LOCAL u64* many, GLOBAL const u64* counts, int passes) {
  for (int i = 2 * LANE; i < passes * WARPS; i += 2 * GROUP_SIZE) SEND_FOUR(many + i, counts + i);
  END_OF_LOT;
}

DEVICE float gate(float4 c, float x, float y) {
  return FMA(FMA(c.w, x, c.z), y, FMA(c.y, x, c.x));
}

// A warp's rows of gates: a, b, out; and their coefficients. They are on their way while others are done: nobody may touch them
// meanwhile, not even to move them. No row reads what another of the same pass writes.
typedef struct {
  int at;
  u64 row[GATES];
  float4 c[GATES];
} Gates;

DEVICE void fetch_gates(Gates* own, GLOBAL const u64* rows, GLOBAL const float* coef) {
  UNROLL
  for (int k = 0; k < GATES; k++) {
    own->row[k] = rows[own->at + k * SLOTS];
    own->c[k] = ((GLOBAL const float4*)coef)[own->at + k * SLOTS];
  }
  own->at += GATES * SLOTS;
}

DEVICE void some_gates(Gates* own, SPACE float4* values, GLOBAL const u64* rows, GLOBAL const float* coef, int many) {
  NO_UNROLL
  for (int i = 0; i < many; i += GATES) {
    float4 x[GATES], y[GATES], out;
    UNROLL
    for (int k = 0; k < GATES; k++)
      if (k == 0 || i + k < many) {
        x[k] = values[FIELD(own->row[k], 0) + QUAD];
        y[k] = values[FIELD(own->row[k], 1) + QUAD];
      }
    UNROLL
    for (int k = 0; k < GATES; k++)
      if (HAS_SLOT && (k == 0 || i + k < many)) {
        out.x = gate(own->c[k], x[k].x, y[k].x);
        out.y = gate(own->c[k], x[k].y, y[k].y);
        out.z = gate(own->c[k], x[k].z, y[k].z);
        out.w = gate(own->c[k], x[k].w, y[k].w);
        values[FIELD(own->row[k], 2) + QUAD] = out;
      }
    fetch_gates(own, rows, coef);
  }
}

// Rows with this step's coefficients. numbers: of gates
KERNEL void spread_gates(GLOBAL float* found, GLOBAL const int* numbers, GLOBAL const float* coef, int count) {
  int i = GROUP * GROUP_SIZE + LANE;
  if (i < count) ((GLOBAL float4*)found)[i] = ((GLOBAL const float4*)coef)[numbers[i]];
}

// Where damage begins in rows (axis 0) or columns: of so many places.
DEVICE int struck_from(int axis, int places, u64 step, u64 seed, u64 purpose) {
  u64 drawn[4] = {0, purpose, (u64)axis, step};
  philox(drawn, seed, DAMAGE);
  return (int)(((drawn[0] >> 32) * (u64)places) >> 32);
}

// What every cell does at every CA step (data.actions), a thread four cells of one. when: the training step.
KERNEL void draw_actions(GLOBAL uchar* fire, GLOBAL const long* when, Drawing draw) {
  int height = (int)draw.height, width = (int)draw.width, side = (int)draw.side;
  int cells = height * width, blocks = (cells + 3) / 4, i = GROUP * GROUP_SIZE + LANE, t = i / blocks, block = i % blocks;
  if (t >= (int)draw.ca_steps) return;
  u64 drawn[4] = {(u64)block, (u64)draw.purpose, (u64)t, (u64)when[0]};
  philox(drawn, (u64)draw.seed, FIRE);
  int hit = side > 0 && t == (int)draw.struck;
  int y = hit ? struck_from(0, height - side + 1, when[0], draw.seed, draw.purpose) : 0;
  int x = hit ? struck_from(1, width - side + 1, when[0], draw.seed, draw.purpose) : 0;
  for (int j = 0; j < 4 && 4 * block + j < cells; j++) {
    int cell = 4 * block + j, row = cell / width - y, column = cell % width - x;
    int does = draw.always || drawn[j] < (u64)draw.limit ? TAKES : KEEPS;
    fire[(i64)t * cells + cell] = hit && row >= 0 && row < side && column >= 0 && column < side ? DIES : does;
  }
}

// One CA step of every tile. starts, counts: of a warp's rows; outputs: places.
KERNEL ALIKE(32 * WARPS, 1) void forward_step(GLOBAL float* next, GLOBAL const float* state, GLOBAL float* memory, GLOBAL const int* starts, GLOBAL const u64* counts, GLOBAL const u64* rows, GLOBAL const float* coef, GLOBAL const int* outputs, GLOBAL const int* neighbours, GLOBAL const int* tiles, GLOBAL const uchar* fire, Forward run, ROOM room) {
  SPACE float4* fours = VALUES;
  SPACE float* values = (SPACE float*)fours;
  int tile = GROUP / SHARES, start = tiles[tile], count = tiles[tile + 1] - start, warp = LANE / 32;
  Gates own;
  own.at = starts[4 * warp] * SLOTS + OWN_SLOT;
  fetch_gates(&own, rows, coef);
  LOCAL u64* many = (LOCAL u64*)(room + BOARD_AT);
  send_counts(many, counts, run.passes);
  gather(values, state, neighbours, cells_of(run.channels, run.cells, run.columns, start, count), GROUP_SIZE);
  WAIT_FOR_LOT(0);
  BARRIER;
  for (int pass = 0; pass < run.passes; pass++) {
    some_gates(&own, fours, rows, coef, FIELD(many[pass * WARPS + warp], 0));
    BARRIER;
  }
  for (int i = LANE; i < run.channels * COUNT; i += GROUP_SIZE) {
    int cell = cell_of(i % COUNT), c = i / COUNT;
    if (cell >= count) continue;
    int column = start + cell;
    int does = run.fired ? fire[column % run.grid] : TAKES;
    float after = does == TAKES ? values[NUMBER(outputs[c], i % COUNT)] : 0.0f;
    next[c * run.columns + column] = does == KEEPS ? state[c * run.columns + column] : after;
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

KERNEL void clear(GLOBAL float* x, int count) {
  int i = GROUP * GROUP_SIZE + LANE;
  if (i < count) x[i] = 0.0f;
}
