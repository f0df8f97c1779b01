// A tile of a matrix product (arithmetic/gemm.py): every number is one chain of fused multiply-adds over its terms, in order. A group
// of DOWN · ALONG threads has ROWS_TILE · COLUMNS_TILE numbers, a thread MICRO_M · MICRO_N of them, in blocks of four where
// there are so many. Terms come TERMS at a time, a lot, through shared memory, where two lots find room: one is used while the
// other is on its way; and what a thread needs of the next term is read while it adds up this one. products.py writes the words
// with _TILE, MICRO_M … TERMS for several sizes.

#define ROWS_TILE (MICRO_M * DOWN)
#define COLUMNS_TILE (MICRO_N * ALONG)
#define GROUP_TILE (DOWN * ALONG)
#define LEFT_TILE (TERMS * (ROWS_TILE + 4))  // floats of a lot
#define RIGHT_TILE (TERMS * (COLUMNS_TILE + 4))
#define LEFT_FOURS_TILE ((ROWS_TILE * TERMS / 4 + GROUP_TILE - 1) / GROUP_TILE)  // of a lot, that a thread brings
#define RIGHT_FOURS_TILE ((COLUMNS_TILE * TERMS / 4 + GROUP_TILE - 1) / GROUP_TILE)
#define BOARD_TILE (2 * (LEFT_TILE + RIGHT_TILE) / 4)  // float4s
// A warp has four threads down and eight along, two rows by turns: of 16 lanes that read fours together, neighbours or those two
// apart read the same, which shared memory then hands out in one go instead of two.
#define DOWN_TILE (LANE / 32 / (ALONG / 8) * 4 + LANE % 32 / 16 * 2 + LANE % 2)
#define ALONG_TILE (LANE / 32 % (ALONG / 8) * 8 + LANE % 16 / 2)
#define ROW_TILE(i) (4 * DOWN_TILE + (i) / 4 * 4 * DOWN + (i) % 4)
#if MICRO_N < 4
#define COLUMN_TILE(j) (ALONG_TILE + (j) * ALONG)
#else
#define COLUMN_TILE(j) (4 * ALONG_TILE + (j) / 4 * 4 * ALONG + (j) % 4)
#endif

// A lot of a matrix, from its first term and place on: terms lie across or along memory, and so many terms and places are there.
// If all is even, what lies across is sent, and fours along the terms are held and turned afterwards; places past the end get
// anything, as nobody looks at their products. Elsewhere numbers come one by one, and what is not there is 0.
// Of fours along the terms a warp has eight terms of 16 places: turned, no two of its numbers lie in one bank.
#define TERM_TILE(item, length, across) ((across) ? (item) / ((length) / 4) : ((item) / (2 * (length)) * 2 + (item) % 2) * 4)
#define PLACE_TILE(item, length, across) ((across) ? (item) % ((length) / 4) * 4 : (item) / 2 % (length))

// Where the fours lie that a thread brings
DEVICE void find_TILE(GLOBAL const float** from, int fours, int length, GLOBAL const float* x, int stride, int across, int places) {
  UNROLL
  for (int l = 0; l < fours; l++) {
    int item = LANE + l * GROUP_TILE, term = TERM_TILE(item, length, across), place = PLACE_TILE(item, length, across);
    from[l] = x + (across ? term * stride + place : (place < places ? place : 0) * stride + term);
  }
}

DEVICE void fetch_TILE(LOCAL float* board, float4* held, int fours, int length, GLOBAL const float** from, int across, int places) {
  UNROLL
  for (int l = 0; l < fours; l++) {
    int item = LANE + l * GROUP_TILE, place = PLACE_TILE(item, length, across);
    if (fours * GROUP_TILE * 4 > TERMS * length && item >= TERMS * length / 4) continue;
    if (across) {
      if (place < places) SEND_FOUR(board + TERM_TILE(item, length, 1) * (length + 4) + place, from[l]);
    } else {
      FETCH_FOUR(held[l], from[l]);
    }
  }
}

DEVICE void turn_TILE(LOCAL float* board, const float4* held, int fours, int length, int across, int squares) {
  UNROLL
  for (int l = 0; l < fours && !across; l++) {
    int item = LANE + l * GROUP_TILE;
    if (fours * GROUP_TILE * 4 > TERMS * length && item >= TERMS * length / 4) continue;
    LOCAL float* to = board + TERM_TILE(item, length, 0) * (length + 4) + PLACE_TILE(item, length, 0);
    to[0] = squares ? held[l].x * held[l].x : held[l].x;
    to[length + 4] = squares ? held[l].y * held[l].y : held[l].y;
    to[2 * (length + 4)] = squares ? held[l].z * held[l].z : held[l].z;
    to[3 * (length + 4)] = squares ? held[l].w * held[l].w : held[l].w;
  }
}

DEVICE void fetch_uneven_TILE(LOCAL float* board, int length, GLOBAL const float* x, int stride, int across, int terms, int places, int squares) {
  UNROLL_4
  for (int l = 0; l < TERMS * length / GROUP_TILE; l++) {
    int item = LANE + l * GROUP_TILE, term = across ? item / length : item % TERMS, place = across ? item % length : item / TERMS;
    int there = term < terms && place < places;
    float found = there ? x[across ? (i64)term * stride + place : (i64)place * stride + term] : 0.0f;
    board[term * (length + 4) + place] = squares ? found * found : found;
  }
}

DEVICE int is_even_TILE(GLOBAL const float* x, int stride, int across, int places, int terms) {
  return terms % TERMS == 0 && IN_FOURS(x, stride) && (!across || places % 4 == 0);
}

// What a thread needs of a term
DEVICE void read_TILE(float* x, float* y, LOCAL const float* u, LOCAL const float* v) {
  UNROLL
  for (int i = 0; i < MICRO_M; i += 4) {
    float4 four = *(LOCAL const float4*)(u + ROW_TILE(i));
    x[i] = four.x; x[i + 1] = four.y; x[i + 2] = four.z; x[i + 3] = four.w;
  }
#if MICRO_N < 4
  UNROLL
  for (int j = 0; j < MICRO_N; j++) y[j] = v[COLUMN_TILE(j)];
#else
  UNROLL
  for (int j = 0; j < MICRO_N; j += 4) {
    float4 four = *(LOCAL const float4*)(v + COLUMN_TILE(j));
    y[j] = four.x; y[j + 1] = four.y; y[j + 2] = four.z; y[j + 3] = four.w;
  }
#endif
}

DEVICE void add_TILE(float sums[MICRO_M][MICRO_N], const float* x, const float* y) {
  UNROLL
  for (int i = 0; i < MICRO_M; i++)
    UNROLL
    for (int j = 0; j < MICRO_N; j++) sums[i][j] = FMA(x[i], y[j], sums[i][j]);
}

#define HALF_TILE(number) \
  LOCAL float* left = (LOCAL float*)boards + ((number) & 1) * LEFT_TILE; \
  LOCAL float* right = (LOCAL float*)boards + 2 * LEFT_TILE + ((number) & 1) * RIGHT_TILE;
#define FETCH_LOT_TILE \
  fetch_TILE(left, a_held, LEFT_FOURS_TILE, ROWS_TILE, a_from, a_across, rows); \
  fetch_TILE(right, b_held, RIGHT_FOURS_TILE, COLUMNS_TILE, b_from, b_across, columns);
#define TURN_LOT_TILE \
  turn_TILE(left, a_held, LEFT_FOURS_TILE, ROWS_TILE, a_across, squares); \
  turn_TILE(right, b_held, RIGHT_FOURS_TILE, COLUMNS_TILE, b_across, 0);

#define FETCH_UNEVEN_TILE \
  fetch_uneven_TILE(left, ROWS_TILE, a, lda, a_across, terms, rows, squares); \
  fetch_uneven_TILE(right, COLUMNS_TILE, b, ldb, b_across, terms, columns, 0);

DEVICE void lots_TILE(float sums[MICRO_M][MICRO_N], LOCAL float4* boards, GLOBAL const float* a, int lda, int a_across, int squares, GLOBAL const float* b, int ldb, int b_across, int rows, int columns, int terms, int even) {
  int lots = (terms + TERMS - 1) / TERMS, a_step = a_across ? TERMS * lda : TERMS, b_step = b_across ? TERMS * ldb : TERMS;
  float4 a_held[LEFT_FOURS_TILE], b_held[RIGHT_FOURS_TILE];
  float x[2][MICRO_M], y[2][MICRO_N];
  GLOBAL const float* a_from[LEFT_FOURS_TILE];
  GLOBAL const float* b_from[RIGHT_FOURS_TILE];
  find_TILE(a_from, LEFT_FOURS_TILE, ROWS_TILE, a, lda, a_across, rows);
  find_TILE(b_from, RIGHT_FOURS_TILE, COLUMNS_TILE, b, ldb, b_across, columns);
  {
    HALF_TILE(0)
    if (even) {
      FETCH_LOT_TILE
      END_OF_LOT;
      TURN_LOT_TILE
      WAIT_FOR_LOT(0);
    } else {
      FETCH_UNEVEN_TILE
    }
    BARRIER;
    read_TILE(x[0], y[0], left, right);
  }
  NO_UNROLL
  for (int lot = 1; lot <= lots; lot++) {
    LOCAL const float* u = (LOCAL float*)boards + ((lot - 1) & 1) * LEFT_TILE;
    LOCAL const float* v = (LOCAL float*)boards + 2 * LEFT_TILE + ((lot - 1) & 1) * RIGHT_TILE;
    HALF_TILE(lot)
    if (even) {
      if (lot < lots) {  // the last one comes again, so that there is no branch around it
        UNROLL
        for (int l = 0; l < LEFT_FOURS_TILE; l++) a_from[l] += a_step;
        UNROLL
        for (int l = 0; l < RIGHT_FOURS_TILE; l++) b_from[l] += b_step;
      }
      FETCH_LOT_TILE
      END_OF_LOT;
    } else if (lot < lots) {
      a += a_step;
      b += b_step;
      terms -= TERMS;
      FETCH_UNEVEN_TILE
    }
    UNROLL
    for (int t = 0; t < TERMS - 1; t++) {
      read_TILE(x[(t + 1) % 2], y[(t + 1) % 2], u + (t + 1) * (ROWS_TILE + 4), v + (t + 1) * (COLUMNS_TILE + 4));
      add_TILE(sums, x[t % 2], y[t % 2]);
    }
    if (even) {
      TURN_LOT_TILE
      WAIT_FOR_LOT(0);
    }
    BARRIER;
    read_TILE(x[0], y[0], left, right);
    add_TILE(sums, x[1], y[1]);
  }
}

// sums = a (m, k) · b (k, n), the tile at (row0, column0), its terms first … end. a or b may lie transposed: a_across says that
// neighbours in memory are rows, b_across that they are columns. `squares`: of a's numbers, which then do not lie across.
DEVICE void product_TILE(float sums[MICRO_M][MICRO_N], LOCAL float4* boards, GLOBAL const float* a, int lda, int a_across, int squares, GLOBAL const float* b, int ldb, int b_across, int row0, int column0, int m, int n, int first, int end) {
  int terms = end - first, even = terms && is_even_TILE(a, lda, a_across, m, terms) && is_even_TILE(b, ldb, b_across, n, terms);
  a += a_across ? (i64)first * lda + row0 : (i64)row0 * lda + first;
  b += b_across ? (i64)first * ldb + column0 : (i64)column0 * ldb + first;
  UNROLL
  for (int i = 0; i < MICRO_M; i++)
    UNROLL
    for (int j = 0; j < MICRO_N; j++) sums[i][j] = 0.0f;
#ifdef CUDA  // a loop for each; elsewhere no barrier may depend on a condition
  if (even) lots_TILE(sums, boards, a, lda, a_across, squares, b, ldb, b_across, m - row0, n - column0, terms, 1);
  else lots_TILE(sums, boards, a, lda, a_across, squares, b, ldb, b_across, m - row0, n - column0, terms, 0);
#else
  lots_TILE(sums, boards, a, lda, a_across, squares, b, ldb, b_across, m - row0, n - column0, terms, even);
#endif
  BARRIER;
}
