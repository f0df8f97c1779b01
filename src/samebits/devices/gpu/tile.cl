// A tile of a matrix product (arithmetic/gemm.py): every number is one chain of fused multiply-adds over its terms, in order. A group
// of DOWN · ALONG threads has TILE_ROWS · TILE_COLUMNS numbers, a thread MICRO_M · MICRO_N of them, in blocks of four where
// there are so many. Terms come TERMS at a time, a lot, through shared memory, where two lots find room: one is used while the
// other is on its way; and what a thread needs of the next term is read while it adds up this one. products.py has
// this text compiled for several sizes: before each copy it defines TILE, the name of the size, and MICRO_M … TERMS (gemm.cl).

// What others need to know of a size
enum { OF_TILE(COLUMNS) = TILE_COLUMNS, OF_TILE(BOARD) = BOARD_FOURS };

DEVICE int OF_TILE(row)(int i) {
  return ROW_OF(i);
}

DEVICE int OF_TILE(column)(int j) {
  return COLUMN_OF(j);
}

// A lot of a matrix, from its first term and place on: terms lie across or along memory, and so many terms and places are there.
// If all is even, what lies across is sent, and fours along the terms are held and turned afterwards; places past the end get
// anything, as nobody looks at their products. Elsewhere numbers come one by one, and what is not there is 0.
// Of fours along the terms a warp has eight terms of 16 places: turned, no two of its numbers lie in one bank.
#define TERM_OF(item, length, across) ((across) ? (item) / ((length) / 4) : ((item) / (2 * (length)) * 2 + (item) % 2) * 4)
#define PLACE_OF(item, length, across) ((across) ? (item) % ((length) / 4) * 4 : (item) / 2 % (length))

// Where the fours lie that a thread brings
DEVICE void OF_TILE(find)(GLOBAL const float** from, int fours, int length, GLOBAL const float* x, int stride, int across, int places) {
  UNROLL
  for (int l = 0; l < fours; l++) {
    int item = LANE + l * TILE_THREADS, term = TERM_OF(item, length, across), place = PLACE_OF(item, length, across);
    from[l] = x + (across ? term * stride + place : (place < places ? place : 0) * stride + term);
  }
}

DEVICE void OF_TILE(fetch)(LOCAL float* board, float4* held, int fours, int length, GLOBAL const float** from, int across, int places) {
  UNROLL
  for (int l = 0; l < fours; l++) {
    int item = LANE + l * TILE_THREADS, place = PLACE_OF(item, length, across);
    if (fours * TILE_THREADS * 4 > TERMS * length && item >= TERMS * length / 4) continue;
    if (across) {
      if (place < places) SEND_FOUR(board + TERM_OF(item, length, 1) * (length + 4) + place, from[l]);
    } else {
      FETCH_FOUR(held[l], from[l]);
    }
  }
}

DEVICE void OF_TILE(turn)(LOCAL float* board, const float4* held, int fours, int length, int across, int squares) {
  UNROLL
  for (int l = 0; l < fours && !across; l++) {
    int item = LANE + l * TILE_THREADS;
    if (fours * TILE_THREADS * 4 > TERMS * length && item >= TERMS * length / 4) continue;
    LOCAL float* to = board + TERM_OF(item, length, 0) * (length + 4) + PLACE_OF(item, length, 0);
    to[0] = squares ? held[l].x * held[l].x : held[l].x;
    to[length + 4] = squares ? held[l].y * held[l].y : held[l].y;
    to[2 * (length + 4)] = squares ? held[l].z * held[l].z : held[l].z;
    to[3 * (length + 4)] = squares ? held[l].w * held[l].w : held[l].w;
  }
}

DEVICE void OF_TILE(fetch_uneven)(LOCAL float* board, int length, GLOBAL const float* x, int stride, int across, int terms, int places, int squares) {
  UNROLL_4
  for (int l = 0; l < TERMS * length / TILE_THREADS; l++) {
    int item = LANE + l * TILE_THREADS, term = across ? item / length : item % TERMS, place = across ? item % length : item / TERMS;
    int there = term < terms && place < places;
    float found = there ? x[across ? (i64)term * stride + place : (i64)place * stride + term] : 0.0f;
    board[term * (length + 4) + place] = squares ? found * found : found;
  }
}

DEVICE int OF_TILE(is_even)(GLOBAL const float* x, int stride, int across, int places, int terms) {
  return terms % TERMS == 0 && IN_FOURS(x, stride) && (!across || places % 4 == 0);
}

// What a thread needs of a term
DEVICE void OF_TILE(read)(float* x, float* y, LOCAL const float* u, LOCAL const float* v) {
  UNROLL
  for (int i = 0; i < MICRO_M; i += 4) {
    float4 four = *(LOCAL const float4*)(u + ROW_OF(i));
    x[i] = four.x; x[i + 1] = four.y; x[i + 2] = four.z; x[i + 3] = four.w;
  }
#if MICRO_N < 4
  UNROLL
  for (int j = 0; j < MICRO_N; j++) y[j] = v[COLUMN_OF(j)];
#else
  UNROLL
  for (int j = 0; j < MICRO_N; j += 4) {
    float4 four = *(LOCAL const float4*)(v + COLUMN_OF(j));
    y[j] = four.x; y[j + 1] = four.y; y[j + 2] = four.z; y[j + 3] = four.w;
  }
#endif
}

DEVICE void OF_TILE(add)(float sums[MICRO_M][MICRO_N], const float* x, const float* y) {
  UNROLL
  for (int i = 0; i < MICRO_M; i++)
    UNROLL
    for (int j = 0; j < MICRO_N; j++) sums[i][j] = FMA(x[i], y[j], sums[i][j]);
}

#define HALF(number) \
  LOCAL float* left = (LOCAL float*)boards + ((number) & 1) * LEFT_FLOATS; \
  LOCAL float* right = (LOCAL float*)boards + 2 * LEFT_FLOATS + ((number) & 1) * RIGHT_FLOATS;
#define FETCH_LOT \
  OF_TILE(fetch)(left, a_held, LEFT_FOURS, TILE_ROWS, a_from, a_across, rows); \
  OF_TILE(fetch)(right, b_held, RIGHT_FOURS, TILE_COLUMNS, b_from, b_across, columns);
#define TURN_LOT \
  OF_TILE(turn)(left, a_held, LEFT_FOURS, TILE_ROWS, a_across, squares); \
  OF_TILE(turn)(right, b_held, RIGHT_FOURS, TILE_COLUMNS, b_across, 0);

#define FETCH_UNEVEN \
  OF_TILE(fetch_uneven)(left, TILE_ROWS, a, lda, a_across, terms, rows, squares); \
  OF_TILE(fetch_uneven)(right, TILE_COLUMNS, b, ldb, b_across, terms, columns, 0);

DEVICE void OF_TILE(lots)(float sums[MICRO_M][MICRO_N], LOCAL float4* boards, Factor one, Factor two, int squares, Tile tile, int terms, int even) {
  GLOBAL const float* a = one.x;
  GLOBAL const float* b = two.x;
  int lda = one.stride, a_across = one.across, ldb = two.stride, b_across = two.across;
  int rows = tile.m - tile.row0, columns = tile.n - tile.column0;
  int lots = (terms + TERMS - 1) / TERMS, a_step = a_across ? TERMS * lda : TERMS, b_step = b_across ? TERMS * ldb : TERMS;
  float4 a_held[LEFT_FOURS], b_held[RIGHT_FOURS];
  float x[2][MICRO_M], y[2][MICRO_N];
  GLOBAL const float* a_from[LEFT_FOURS];
  GLOBAL const float* b_from[RIGHT_FOURS];
  OF_TILE(find)(a_from, LEFT_FOURS, TILE_ROWS, a, lda, a_across, rows);
  OF_TILE(find)(b_from, RIGHT_FOURS, TILE_COLUMNS, b, ldb, b_across, columns);
  {
    HALF(0)
    if (even) {
      FETCH_LOT
      END_OF_LOT;
      TURN_LOT
      WAIT_FOR_LOT(0);
    } else {
      FETCH_UNEVEN
    }
    BARRIER;
    OF_TILE(read)(x[0], y[0], left, right);
  }
  NO_UNROLL
  for (int lot = 1; lot <= lots; lot++) {
    LOCAL const float* u = (LOCAL float*)boards + ((lot - 1) & 1) * LEFT_FLOATS;
    LOCAL const float* v = (LOCAL float*)boards + 2 * LEFT_FLOATS + ((lot - 1) & 1) * RIGHT_FLOATS;
    HALF(lot)
    if (even) {
      if (lot < lots) {  // the last one comes again, so that there is no branch around it
        UNROLL
        for (int l = 0; l < LEFT_FOURS; l++) a_from[l] += a_step;
        UNROLL
        for (int l = 0; l < RIGHT_FOURS; l++) b_from[l] += b_step;
      }
      FETCH_LOT
      END_OF_LOT;
    } else if (lot < lots) {
      a += a_step;
      b += b_step;
      terms -= TERMS;
      FETCH_UNEVEN
    }
    UNROLL
    for (int t = 0; t < TERMS - 1; t++) {
      OF_TILE(read)(x[(t + 1) % 2], y[(t + 1) % 2], u + (t + 1) * (TILE_ROWS + 4), v + (t + 1) * (TILE_COLUMNS + 4));
      OF_TILE(add)(sums, x[t % 2], y[t % 2]);
    }
    if (even) {
      TURN_LOT
      WAIT_FOR_LOT(0);
    }
    BARRIER;
    OF_TILE(read)(x[0], y[0], left, right);
    OF_TILE(add)(sums, x[1], y[1]);
  }
}

// sums = a (m, k) · b (k, n), this tile of it, its terms first … end. `squares`: of a's numbers, which then do not lie across.
DEVICE void OF_TILE(product)(float sums[MICRO_M][MICRO_N], LOCAL float4* boards, Factor a, Factor b, int squares, Tile tile, int first, int end) {
  int terms = end - first;
  int even = terms && OF_TILE(is_even)(a.x, a.stride, a.across, tile.m, terms) && OF_TILE(is_even)(b.x, b.stride, b.across, tile.n, terms);
  a.x += a.across ? (i64)first * a.stride + tile.row0 : (i64)tile.row0 * a.stride + first;
  b.x += b.across ? (i64)first * b.stride + tile.column0 : (i64)tile.column0 * b.stride + first;
  UNROLL
  for (int i = 0; i < MICRO_M; i++)
    UNROLL
    for (int j = 0; j < MICRO_N; j++) sums[i][j] = 0.0f;
#ifdef CUDA  // a loop for each; elsewhere no barrier may depend on a condition
  if (even) OF_TILE(lots)(sums, boards, a, b, squares, tile, terms, 1);
  else OF_TILE(lots)(sums, boards, a, b, squares, tile, terms, 0);
#else
  OF_TILE(lots)(sums, boards, a, b, squares, tile, terms, even);
#endif
  BARRIER;
}
