// The fixed tree (engine/merge.py). A thread has a column of the rows.

#define LEVELS 24  // units: up to 2^23

// Push rows (units first, first + 1, …) into a binary counter that began at unit `begin`; or one row that is a node of
// level_given, if that is not negative. What waits for a right sibling lies in partial[level], for a left one in
// partial[levels + level].
KERNEL void fold(GLOBAL REAL* partial, GLOBAL const REAL* rows, int levels, int width, int begin, int first, int count, int level_given) {
  int column = GROUP * GROUP_SIZE + LANE;
  if (column >= width) return;
  REAL nodes[LEVELS];  // in registers: nothing but loops that are unrolled looks at them
  UNROLL
  for (int level = 0; level < LEVELS; level++)
    if (level < levels && ((first >> level) & 1) && ((first >> level) - 1) << level >= begin)
      nodes[level] = partial[(i64)level * width + column];
  int unit = first, lowest = level_given < 0 ? 0 : level_given;
  for (int row = 0; row < count; row++) {
    REAL value = rows[(i64)row * width + column];
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
