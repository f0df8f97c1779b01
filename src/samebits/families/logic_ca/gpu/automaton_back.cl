// The way back of a rollout (automaton.cl has its words and the way there): adjoints of blocks, sums of gates.

// which: two of 2 · number + side; into slope = flat + steep · other, twice. −1: a slope of 1
KERNEL void spread_readers(GLOBAL float* found, GLOBAL const int* which, GLOBAL const float* coef, int count) {
  int i = GROUP * GROUP_SIZE + LANE;
  if (i >= count) return;
  float two[4];
  for (int k = 0; k < 2; k++) {
    int one = which[2 * i + k];
    GLOBAL const float* c = coef + 4 * (one < 0 ? 0 : one / 2);
    two[2 * k] = one < 0 ? 1.0f : (one & 1) ? c[2] : c[1];
    two[2 * k + 1] = one < 0 ? 0.0f : c[3];
  }
  float4 both;
  both.x = two[0]; both.y = two[1]; both.z = two[2]; both.w = two[3];
  ((GLOBAL float4*)found)[i] = both;
}

// A warp's rows of blocks, two readers each: adjoint above, other input, adjoint above; other input, target, what to do. The
// adjoint of a block is a chain over its readers, last first; what it begins with: nothing (0), its first reader (1), what lies
// there (2); 3: it goes on.

typedef struct {
  int at;
  u64 low[BLOCKS], high[BLOCKS];
  float4 slope[BLOCKS];
} Blocks;

DEVICE void fetch_blocks(Blocks* own, GLOBAL const u64* rows, GLOBAL const float* slopes) {
  UNROLL
  for (int k = 0; k < BLOCKS; k++) {
    int4 row = ((GLOBAL const int4*)rows)[own->at + k * SLOTS];
    own->low[k] = (u64)(u32)row.y << 32 | (u32)row.x;
    own->high[k] = (u64)(u32)row.w << 32 | (u32)row.z;
    own->slope[k] = ((GLOBAL const float4*)slopes)[own->at + k * SLOTS];
  }
  own->at += BLOCKS * SLOTS;
}

DEVICE float4 from_reader(float4 d, float4 above, float4 other, float flat, float steep) {
  d.x = FMA(above.x, FMA(steep, other.x, flat), d.x);
  d.y = FMA(above.y, FMA(steep, other.y, flat), d.y);
  d.z = FMA(above.z, FMA(steep, other.z, flat), d.z);
  d.w = FMA(above.w, FMA(steep, other.w, flat), d.w);
  return d;
}

DEVICE void leave(GLOBAL float* patch, float4 d) {
  patch[cell_of(4 * QUAD)] = d.x;
  patch[cell_of(4 * QUAD + 1)] = d.y;
  patch[cell_of(4 * QUAD + 2)] = d.z;
  patch[cell_of(4 * QUAD + 3)] = d.w;
}

DEVICE void some_blocks(Blocks* own, SPACE float4* values, GLOBAL const u64* rows, GLOBAL const float* slopes, GLOBAL float* patches, int many) {
  float4 d;
  NO_UNROLL
  for (int i = 0; i < many; i += BLOCKS) {
    float4 above[2 * BLOCKS], other[2 * BLOCKS];
    UNROLL
    for (int k = 0; k < BLOCKS; k++)
      if (k == 0 || i + k < many) {
        above[2 * k] = values[FIELD(own->low[k], 0) + QUAD];
        other[2 * k] = values[FIELD(own->low[k], 1) + QUAD];
        above[2 * k + 1] = values[FIELD(own->low[k], 2) + QUAD];
        other[2 * k + 1] = values[FIELD(own->high[k], 0) + QUAD];
      }
    UNROLL
    for (int k = 0; k < BLOCKS; k++)
      if (k == 0 || i + k < many) {
        int target = FIELD(own->high[k], 1), what = FIELD(own->high[k], 2), begins = what & 3;
        if (begins < 2) d.x = d.y = d.z = d.w = begins == 1 ? -0.0f : 0.0f;  // −0 + x · y is x · y, rounded
        if (begins == 2) d = values[target + QUAD];
        d = from_reader(d, above[2 * k], other[2 * k], own->slope[k].x, own->slope[k].y);
        d = from_reader(d, above[2 * k + 1], other[2 * k + 1], own->slope[k].z, own->slope[k].w);
        if (HAS_SLOT && (what & ENDS)) {
          if (what & IS_INPUT) leave(patches + (i64)target * CELLS, d);
          else values[target + QUAD] = d;
        }
      }
    fetch_blocks(own, rows, slopes);
  }
}

// rows: reader's adjoint, other input, 2 · number + side; into: the first two, flat and steep
KERNEL void spread_chains(GLOBAL int* found, GLOBAL const int* rows, GLOBAL const float* coef, int count) {
  int i = GROUP * GROUP_SIZE + LANE;
  if (i >= count) return;
  int which = rows[4 * i + 2];
  GLOBAL const float* c = coef + 4 * (which / 2);
  found[4 * i] = rows[4 * i];
  found[4 * i + 1] = rows[4 * i + 1];
  found[4 * i + 2] = BITS_OF((which & 1) ? c[2] : c[1]);
  found[4 * i + 3] = BITS_OF(c[3]);
}

// Inputs that many gates read: their chains lie on the chip, a row a reader: adjoint above, other input, and the bits of flat and
// steep. chains: (many, 4) first row, last, what it begins with, number of the input; those of a slot: every so many.
DEVICE void some_chains(SPACE const float4* values, LOCAL const int4* board, GLOBAL const int* chains, int many, GLOBAL float* patches) {
  for (int chain = LANE / 32 * SLOTS + SLOT; HAS_SLOT && chain < many; chain += WARPS * SLOTS) {
    int first = chains[4 * chain], last = chains[4 * chain + 1];
    float4 d;
    d.x = d.y = d.z = d.w = chains[4 * chain + 2] == 1 ? -0.0f : 0.0f;
    NO_UNROLL
    for (int r = first; r < last; r += 2 * SOME) {
      int4 row[2 * SOME];
      float4 above[2 * SOME], other[2 * SOME];
      UNROLL
      for (int k = 0; k < 2 * SOME; k++) row[k] = board[r + k < last ? r + k : r];
      UNROLL
      for (int k = 0; k < 2 * SOME; k++) {
        above[k] = values[row[k].x + QUAD];
        other[k] = values[row[k].y + QUAD];
      }
      UNROLL
      for (int k = 0; k < 2 * SOME; k++)
        if (r + k < last) d = from_reader(d, above[k], other[k], FLOAT_OF(row[k].z), FLOAT_OF(row[k].w));
    }
    leave(patches + (i64)chains[4 * chain + 3] * CELLS, d);
  }
}

// A warp's rows of sums, PAIRS threads a gate, each with eight of its lanes (or four): a, b, the adjoint, of an entry, and whether
// it is the gate's last one. All gates of a row have as many entries. `to`: where their sums go.
#define A_ROW (32 / PAIRS)  // gates
#define ENTRY (LANE % 32 / PAIRS)

typedef struct {
  int at, to, begin;
  u64 row[SUMS];
} Sums;

DEVICE void fetch_sums(Sums* own, GLOBAL const u64* rows) {
  UNROLL
  for (int k = 0; k < SUMS; k++) own->row[k] = rows[own->at + A_ROW * k];
  own->at += SUMS * A_ROW;
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

// The lanes of one sum, in the order in which they meet.
#if SHARE > 4
#define FOLDED(t, u) (((t.x + u.x) + (t.z + u.z)) + ((t.y + u.y) + (t.w + u.w)))
#else
#define FOLDED(t, u) ((t.x + t.z) + (t.y + t.w))
#endif

DEVICE void some_sums(Sums* own, SPACE const float4* values, GLOBAL const u64* rows, GLOBAL float4* parts, int many) {
  float4 t[4];
  int pair = LANE % PAIRS * 2;
#if SHARE > 4
  float4 u[4];
  int first = pair + (LANE / PAIRS & 1), second = pair + 1 - (LANE / PAIRS & 1);  // neighbours begin with the other quad: t + u is u + t
#else
  int first = pair;
#endif
  NO_UNROLL
  for (int i = 0; i < many; i += SUMS) {
    UNROLL
    for (int k = 0; k < SUMS; k++)
      if (k == 0 || i + k < many) {
        int a = FIELD(own->row[k], 0), b = FIELD(own->row[k], 1), d = FIELD(own->row[k], 2);
        add_up(t, values[d + first], values[a + first], values[b + first], own->begin);
#if SHARE > 4
        add_up(u, values[d + second], values[a + second], values[b + second], own->begin);
#endif
        own->begin = (int)(own->row[k] >> 63);
        if (own->begin) {
          float4 sum;
          sum.x = FOLDED(t[0], u[0]);
          sum.y = FOLDED(t[1], u[1]);
          sum.z = FOLDED(t[2], u[2]);
          sum.w = FOLDED(t[3], u[3]);
#if KEPT < PAIRS
          sum.x = sum.x + ACROSS(sum.x, 1);
          sum.y = sum.y + ACROSS(sum.y, 1);
          sum.z = sum.z + ACROSS(sum.z, 1);
          sum.w = sum.w + ACROSS(sum.w, 1);
          if (pair == 0)
#endif
          parts[own->to] = sum;
          own->to += A_ROW;
        }
      }
    fetch_sums(own, rows);
  }
}

#define GATHERERS (32 * WARPS * 3 / 4)  // threads; the others sum up what comes from above meanwhile

// The way back of a CA step: as of the way there (Forward), and how many inputs have chains, and readers those; channels of the
// target; places of a group's sums; whether nothing comes after the step, whether its error counts
typedef struct {
  int passes, fired, channels, grid, cells, columns, size, chains, readers, goals, places, last, judged;
} Backward;

// The way back of one CA step: from the gradients of the next state to those of the cell's inputs, and the gates' sums over the
// group's cells, pair by pair (parts). next: the state after it.
KERNEL ALIKE(32 * WARPS, 1) void backward_step(GLOBAL float* parts, GLOBAL float* patches, GLOBAL const float* patches_after, GLOBAL float* passed, GLOBAL const float* passed_after, GLOBAL const float* next, GLOBAL const float* state, GLOBAL float* memory, GLOBAL const int* starts, GLOBAL const u64* counts, GLOBAL const u64* gates, GLOBAL const float* coef, GLOBAL const u64* blocks, GLOBAL const float* slopes, GLOBAL const u64* sums, GLOBAL const int* chains, GLOBAL const float* readers, GLOBAL const int* neighbours, GLOBAL const int* seats, GLOBAL const float* targets, GLOBAL const int* tiles, GLOBAL const uchar* fire, Backward run, ROOM room) {
  SPACE float4* fours = VALUES;
  SPACE float* values = (SPACE float*)fours;
  int tile = GROUP / SHARES, start = tiles[tile], count = tiles[tile + 1] - start, warp = LANE / 32;
  int channels = run.channels, columns = run.columns, places = run.places, inputs = 9 * channels;
  Gates forth;
  Blocks back;
  Sums sum;
  forth.at = starts[4 * warp] * SLOTS + OWN_SLOT;
  back.at = starts[4 * warp + 1] * SLOTS + OWN_SLOT;
  sum.at = starts[4 * warp + 2] * A_ROW + ENTRY;
  sum.to = starts[4 * warp + 3] * A_ROW + ENTRY + (KEPT < PAIRS ? 0 : LANE % PAIRS * places);
  sum.begin = 1;
  fetch_gates(&forth, gates, coef);
  fetch_blocks(&back, blocks, slopes);
  fetch_sums(&sum, sums);
  LOCAL float4* board = room + BOARD_AT;
  LOCAL u64* many = (LOCAL u64*)(board + run.readers);
  for (int i = LANE; i < run.readers; i += GROUP_SIZE) SEND_FOUR(board + i, readers + 4 * i);
  send_counts(many, counts, run.passes);
  if (LANE < GATHERERS) gather(values, state, neighbours, cells_of(channels, run.cells, columns, start, count), GATHERERS);
  for (int i = LANE - GATHERERS; i >= 0 && i < channels * COUNT; i += GROUP_SIZE - GATHERERS) {
    int cell = cell_of(i % COUNT), c = i / COUNT, column = start + cell;
    float total = 0.0f;
    if (cell < count) {
      if (!run.last) {
        total = patches_after[seats[column] + c * CELLS];
        UNROLL
        for (int p = 1; p < 9; p++) total = total + patches_after[seats[p * run.cells + column] + (p * channels + c) * CELLS];
        if (run.fired) total = total + passed_after[c * columns + column];
      }
      if (run.judged && c < run.goals) {
        float slope = next[c * columns + column] - targets[c * columns + column];
        total = run.last ? slope + slope : total + (slope + slope);
      }
      if (run.fired) {
        int does = fire[column % run.grid];
        passed[c * columns + column] = does == KEEPS ? total : 0.0f;
        if (does != TAKES) total = 0.0f;
      }
    }
    values[NUMBER(inputs + c, i % COUNT)] = total;
  }
  for (int i = LANE; i < COUNT; i += GROUP_SIZE) values[NUMBER(inputs + channels + 1, i)] = -0.0f;
  GLOBAL float4* own = (GLOBAL float4*)parts + (i64)GROUP * KEPT * places;
  GLOBAL float* patch = patches + (i64)tile * inputs * CELLS;
  WAIT_FOR_LOT(0);
  for (int pass = 0; pass < run.passes; pass++) {
    BARRIER;
    u64 some = many[pass * WARPS + warp];
    some_blocks(&back, fours, blocks, slopes, patch, FIELD(some, 1));
    some_gates(&forth, fours, gates, coef, FIELD(some, 0));
    some_sums(&sum, fours, sums, own, FIELD(some, 2));
  }
  some_chains(fours, (LOCAL const int4*)board, chains, run.chains, patch);
}

// sums (tiles, gates, 4) of a step: those of a tile's shares, and their pairs where those are apart, in the order of the tree; added
// to those of later steps. They lie as parts do, until those of the first step, after which all is there: then in slots. order:
// whose sums lie at each place; −1: nobody's.
KERNEL void combine(GLOBAL float* slots, GLOBAL float* sums, GLOBAL const float* parts, GLOBAL const int* order, int places, int count_gates, int last, int first) {
  int i = GROUP * GROUP_SIZE + LANE, gate = i / 4 < places ? order[i / 4] : -1;
  if (gate < 0) return;
  float s[SHARES * KEPT];
  i64 at = 4 * (i64)GROUP_Y * places + i;
  for (int j = 0; j < SHARES * KEPT; j++) s[j] = parts[4 * ((i64)GROUP_Y * SHARES * KEPT + j) * places + i];
  for (int n = SHARES * KEPT / 2; n > 0; n /= 2)
    for (int j = 0; j < n; j++) s[j] = s[2 * j] + s[2 * j + 1];
  float sum = (last ? 0.0f : sums[at]) + s[0];
  if (first) slots[4 * ((i64)GROUP_Y * count_gates + gate) + i % 4] = sum;
  else sums[at] = sum;
}
