// A tile of a matrix product (engine/gemm.py): every number is one chain of fused multiply-adds over its terms, in order. A group
// of DOWN · ALONG threads has ROWS_TILE · COLUMNS_TILE numbers, a thread MICRO_M · MICRO_N of them, in blocks of four where
// there are so many. Terms come TERMS at a time, a lot, through shared memory, where STAGES lots find room: one is used while the
// others are on their way. products.py writes the words with _TILE, MICRO_M … STAGES for several sizes.

#define ROWS_TILE (MICRO_M * DOWN)
#define COLUMNS_TILE (MICRO_N * ALONG)
#define GROUP_TILE (DOWN * ALONG)
#define LEFT_TILE (TERMS * (ROWS_TILE + 4))  // floats of a lot
#define RIGHT_TILE (TERMS * (COLUMNS_TILE + 4))
#define LEFT_FOURS_TILE ((ROWS_TILE * TERMS / 4 + GROUP_TILE - 1) / GROUP_TILE)  // of a lot, that a thread brings
#define RIGHT_FOURS_TILE ((COLUMNS_TILE * TERMS / 4 + GROUP_TILE - 1) / GROUP_TILE)
#define BOARD_TILE (STAGES * (LEFT_TILE + RIGHT_TILE) / 4)  // float4s
#define DOWN_TILE (LANE / 32 / (ALONG / 8) * 4 + LANE % 32 / 8)  // a warp has four threads down and eight along
#define ALONG_TILE (LANE / 32 % (ALONG / 8) * 8 + LANE % 8)
#define ROW_TILE(i) (4 * DOWN_TILE + (i) / 4 * 4 * DOWN + (i) % 4)
#if MICRO_N < 4
#define COLUMN_TILE(j) (ALONG_TILE + (j) * ALONG)
#else
#define COLUMN_TILE(j) (4 * ALONG_TILE + (j) / 4 * 4 * ALONG + (j) % 4)
#endif

// A lot of a matrix, from its first term and place on: terms lie across or along memory, and so many terms and places are there.
// If all is even, what lies across is sent, and fours along the terms are held and turned afterwards; places past the end get
// anything, as nobody looks at their products. Elsewhere numbers come one by one, and what is not there is 0.
#define TERM_TILE(item, length, across) ((across) ? (item) / ((length) / 4) : (item) % (TERMS / 4) * 4)
#define PLACE_TILE(item, length, across) ((across) ? (item) % ((length) / 4) * 4 : (item) / (TERMS / 4))

DEVICE void fetch_TILE(LOCAL float* board, float4* held, int fours, int length, GLOBAL const float* x, int stride, int across, int terms, int places, int even) {
  if (even) {
    UNROLL
    for (int l = 0; l < fours; l++) {
      int item = LANE + l * GROUP_TILE, term = TERM_TILE(item, length, across), place = PLACE_TILE(item, length, across);
      if (fours * GROUP_TILE * 4 > TERMS * length && item >= TERMS * length / 4) continue;
      if (across) {
        if (place < places) SEND_FOUR(board + term * (length + 4) + place, x + term * stride + place);
      } else {
        FETCH_FOUR(held[l], x + (place < places ? place : 0) * stride + term);
      }
    }
  } else {
    NO_UNROLL
    for (int item = LANE; item < TERMS * length; item += GROUP_TILE) {
      int term = across ? item / length : item % TERMS, place = across ? item % length : item / TERMS;
      int there = term < terms && place < places;
      board[term * (length + 4) + place] = there ? x[across ? (i64)term * stride + place : (i64)place * stride + term] : 0.0f;
    }
  }
}

DEVICE void turn_TILE(LOCAL float* board, const float4* held, int fours, int length, int across) {
  UNROLL
  for (int l = 0; l < fours && !across; l++) {
    int item = LANE + l * GROUP_TILE;
    if (fours * GROUP_TILE * 4 > TERMS * length && item >= TERMS * length / 4) continue;
    LOCAL float* to = board + TERM_TILE(item, length, 0) * (length + 4) + PLACE_TILE(item, length, 0);
    to[0] = held[l].x;
    to[length + 4] = held[l].y;
    to[2 * (length + 4)] = held[l].z;
    to[3 * (length + 4)] = held[l].w;
  }
}

DEVICE int is_even_TILE(GLOBAL const float* x, int stride, int across, int places, int terms) {
  return terms % TERMS == 0 && IN_FOURS(x, stride) && (!across || places % 4 == 0);
}

// sums += the products of one term
DEVICE void term_TILE(float sums[MICRO_M][MICRO_N], LOCAL const float* u, LOCAL const float* v) {
  float x[MICRO_M], y[MICRO_N];
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
  UNROLL
  for (int i = 0; i < MICRO_M; i++)
    UNROLL
    for (int j = 0; j < MICRO_N; j++) sums[i][j] = FMA(x[i], y[j], sums[i][j]);
}

#define NEXT_LOT_TILE(number) \
  if ((number) < lots) { /* after the last one it comes again, so that there is no branch around it */ \
    a += a_step; \
    b += b_step; \
    terms -= TERMS; \
  }

// sums += a (m, k) · b (k, n), the tile at (row0, column0), its terms first … end. a or b may lie transposed: a_across says that
// neighbours in memory are rows, b_across that they are columns.
DEVICE void product_TILE(float sums[MICRO_M][MICRO_N], LOCAL float4* boards, GLOBAL const float* a, int lda, int a_across, GLOBAL const float* b, int ldb, int b_across, int row0, int column0, int m, int n, int first, int end) {
  LOCAL float* left = (LOCAL float*)boards;
  LOCAL float* right = left + STAGES * LEFT_TILE;
  i64 a_step = a_across ? (i64)TERMS * lda : TERMS, b_step = b_across ? (i64)TERMS * ldb : TERMS;
  int terms = end - first, even = is_even_TILE(a, lda, a_across, m, terms) && is_even_TILE(b, ldb, b_across, n, terms);
  a += a_across ? (i64)first * lda + row0 : (i64)row0 * lda + first;
  b += b_across ? (i64)first * ldb + column0 : (i64)column0 * ldb + first;
  float4 a_held[LEFT_FOURS_TILE], b_held[RIGHT_FOURS_TILE];
  int lots = (terms + TERMS - 1) / TERMS, sent = 0;
  for (; sent < STAGES - 1; sent++) {
    fetch_TILE(left + sent * LEFT_TILE, a_held, LEFT_FOURS_TILE, ROWS_TILE, a, lda, a_across, terms, m - row0, even);
    fetch_TILE(right + sent * RIGHT_TILE, b_held, RIGHT_FOURS_TILE, COLUMNS_TILE, b, ldb, b_across, terms, n - column0, even);
    END_OF_LOT;
    if (even) {
      turn_TILE(left + sent * LEFT_TILE, a_held, LEFT_FOURS_TILE, ROWS_TILE, a_across);
      turn_TILE(right + sent * RIGHT_TILE, b_held, RIGHT_FOURS_TILE, COLUMNS_TILE, b_across);
    }
    NEXT_LOT_TILE(sent + 1)
  }
  NO_UNROLL
  for (int lot = 0, used = 0; lot < lots; lot++) {
    WAIT_FOR_LOT(STAGES - 2);
    BARRIER;
    fetch_TILE(left + sent * LEFT_TILE, a_held, LEFT_FOURS_TILE, ROWS_TILE, a, lda, a_across, terms, m - row0, even);
    fetch_TILE(right + sent * RIGHT_TILE, b_held, RIGHT_FOURS_TILE, COLUMNS_TILE, b, ldb, b_across, terms, n - column0, even);
    END_OF_LOT;
    NEXT_LOT_TILE(lot + STAGES)
    LOCAL const float* u = left + used * LEFT_TILE;
    LOCAL const float* v = right + used * RIGHT_TILE;
    UNROLL
    for (int t = 0; t < TERMS; t++) term_TILE(sums, u + t * (ROWS_TILE + 4), v + t * (COLUMNS_TILE + 4));
    if (even) {
      turn_TILE(left + sent * LEFT_TILE, a_held, LEFT_FOURS_TILE, ROWS_TILE, a_across);
      turn_TILE(right + sent * RIGHT_TILE, b_held, RIGHT_FOURS_TILE, COLUMNS_TILE, b_across);
    }
    sent = sent + 1 < STAGES ? sent + 1 : 0;
    used = used + 1 < STAGES ? used + 1 : 0;
  }
  WAIT_FOR_LOT(0);
  BARRIER;
}
