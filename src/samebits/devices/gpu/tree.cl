// The fixed tree (devices/cpu/tree.py). A thread has a column of the rows. There are fewer than 2^LEVELS units.

#define AHEAD 4  // rows that are on their way

// Push rows (nodes of the lowest level, from unit `first` on) into a binary counter that began at unit `begin`. What waits for a
// right sibling lies in partial[level], for a left one in partial[levels + level].
KERNEL void fold(GLOBAL REAL* partial, GLOBAL const REAL* rows, int levels, int width, int begin, int first, int count, int lowest) {
  int column = GROUP * GROUP_SIZE + LANE;
  if (column >= width) return;
  REAL nodes[LEVELS];  // in registers: nothing but loops that are unrolled looks at them
  UNROLL
  for (int level = 0; level < LEVELS; level++)
    if (level < levels && ((first >> level) & 1) && ((first >> level) - 1) << level >= begin)
      nodes[level] = partial[(i64)level * width + column];
  int unit = first;
  for (int row = 0; row < count; row += AHEAD) {
    REAL next[AHEAD];
    UNROLL
    for (int k = 0; k < AHEAD; k++) next[k] = rows[(i64)min(row + k, count - 1) * width + column];
    UNROLL
    for (int k = 0; k < AHEAD; k++) {
      if (row + k >= count) continue;
      REAL value = next[k];
      UNROLL
      for (int level = 0; level < LEVELS; level++) {
        if (level < lowest) continue;
        if (((unit >> level) & 1) == 0) {
          nodes[level] = value;
          break;
        }
        if (((unit >> level) - 1) << level < begin) {
          partial[(i64)(levels + level) * width + column] = value;
          break;
        }
        value = nodes[level] + value;
      }
      unit += 1 << lowest;
    }
  }
  UNROLL
  for (int level = 0; level < LEVELS; level++)
    if (level < levels && ((unit >> level) & 1) && ((unit >> level) - 1) << level >= begin)
      partial[(i64)level * width + column] = nodes[level];
}

// Fold what waits, smallest level first: each is the left sibling of everything below it.
KERNEL void root(GLOBAL REAL* root, GLOBAL const REAL* partial, int width, int count) {
  int column = GROUP * GROUP_SIZE + LANE;
  if (column >= width) return;
  REAL total = 0;
  int empty = 1;
  for (int level = 0; count >> level; level++) {
    if (((count >> level) & 1) == 0) continue;
    REAL node = partial[(i64)level * width + column];
    total = empty ? node : node + total;
    empty = 0;
  }
  root[column] = total;
}

// The root of the tree over `count` rows. Eight at a time are a node of level 3; what is left are smaller ones.
KERNEL void whole(GLOBAL REAL* root, GLOBAL const REAL* rows, int width, int count) {
  int column = GROUP * GROUP_SIZE + LANE;
  if (column >= width) return;
  REAL nodes[LEVELS - 3], x[8];
  rows += column;
  for (int block = 0; block < count / 8; block++) {
    UNROLL
    for (int k = 0; k < 8; k++) x[k] = rows[(i64)(8 * block + k) * width];
    REAL value = ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
    UNROLL
    for (int level = 0; level < LEVELS - 3; level++) {
      if (((block >> level) & 1) == 0) {
        nodes[level] = value;
        break;
      }
      value = nodes[level] + value;
    }
  }
  REAL total = 0;
  int left = count % 8, empty = 1;
  rows += (i64)(count - left) * width;
  UNROLL
  for (int k = 0; k < 7; k++) x[k] = k < left ? rows[(i64)k * width] : 0;
  if (left & 1) {
    total = left == 7 ? x[6] : left == 5 ? x[4] : left == 3 ? x[2] : x[0];
    empty = 0;
  }
  if (left & 2) {
    REAL node = left & 4 ? x[4] + x[5] : x[0] + x[1];
    total = empty ? node : node + total;
    empty = 0;
  }
  if (left & 4) {
    REAL node = (x[0] + x[1]) + (x[2] + x[3]);
    total = empty ? node : node + total;
    empty = 0;
  }
  UNROLL
  for (int level = 0; level < LEVELS - 3; level++)
    if ((count >> (level + 3)) & 1) {
      total = empty ? nodes[level] : nodes[level] + total;
      empty = 0;
    }
  root[column] = total;
}
