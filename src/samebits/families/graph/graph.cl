// Message passing over graphs (kernels.py): all nodes of a wave at once. Neighbours and feature rows are lists in one order;
// nothing is scattered. HEADS are the four heads' sizes.

#define ELEMENT (GROUP * GROUP_SIZE + LANE)

// A group has a graph's part of an array: parts (graphs + 1, 4) first in the store, −1 for nothing, first here, how many, what is
// added; an entry has `width` numbers
KERNEL void pick(GLOBAL int* out, GLOBAL const int* store, GLOBAL const int* parts, int width) {
  GLOBAL const int* part = parts + 4 * GROUP;
  for (int i = LANE; i < part[2] * width; i += GROUP_SIZE)
    out[part[1] * width + i] = (part[0] < 0 ? 0 : store[(i64)part[0] * width + i]) + part[3];
}

// x (n, W), its first H columns: the sum of each node's feature rows
KERNEL void embed_forward(GLOBAL float* x, GLOBAL const float* table, GLOBAL const int* row_starts, GLOBAL const int* rows, int count, int H, int W) {
  if (ELEMENT >= count) return;
  int node = ELEMENT / H, j = ELEMENT % H;
  float sum = table[(i64)rows[row_starts[node]] * H + j];
  for (int e = row_starts[node] + 1; e < row_starts[node + 1]; e++) sum = sum + table[(i64)rows[e] * H + j];
  x[(i64)node * W + j] = sum;
}

// columns `column` … + H: sums over neighbours of the first H columns
KERNEL void gather_forward(GLOBAL float* x, GLOBAL const int* starts, GLOBAL const int* edges, int count, int H, int W, int column) {
  if (ELEMENT >= count) return;
  int node = ELEMENT / H, j = ELEMENT % H;
  float sum = 0.0f;
  for (int e = starts[node]; e < starts[node + 1]; e++) {
    float value = x[(i64)edges[e] * W + j];
    sum = e == starts[node] ? value : sum + value;
  }
  x[(i64)node * W + column + j] = sum;
}

// dh (n, H) += what reached sums that a node was part of; column 0: = what reached the node itself
KERNEL void gather_backward(GLOBAL float* dh, GLOBAL const float* dx, GLOBAL const int* starts, GLOBAL const int* edges, int count, int H, int W, int column) {
  if (ELEMENT >= count) return;
  int node = ELEMENT / H, j = ELEMENT % H;
  if (column == 0) {
    dh[ELEMENT] = dx[(i64)node * W + j];
    return;
  }
  float sum = dh[ELEMENT];
  for (int e = starts[node]; e < starts[node + 1]; e++) sum = sum + dx[(i64)edges[e] * W + column + j];
  dh[ELEMENT] = sum;
}

KERNEL void activate(GLOBAL float* h, GLOBAL float* slope, GLOBAL const float* bias, int count, int H, int W, int relu) {
  if (ELEMENT >= count) return;
  int node = ELEMENT / H, j = ELEMENT % H;
  float x = h[(i64)node * W + j] + bias[j];
  if (relu) {
    slope[ELEMENT] = x < 0.0f ? 0.0f : 1.0f;
    h[(i64)node * W + j] = x < 0.0f ? 0.0f : x;
  } else {
    float s = DIVIDE(x, SQRT(FMA(x, x, 1.0f))), h_x = 0.5f * x, h_s = 0.5f * s;
    h[(i64)node * W + j] = FMA(h_x, s, h_x);
    slope[ELEMENT] = FMA(h_s, FMA(-s, s, 2.0f), 0.5f);
  }
}

KERNEL void scale_by(GLOBAL float* dh, GLOBAL const float* slope, int count) {
  if (ELEMENT < count) dh[ELEMENT] = dh[ELEMENT] * slope[ELEMENT];
}

KERNEL void add_extra(GLOBAL float* slopes, GLOBAL const float* extra, int count, int A, int C) {
  if (ELEMENT >= count) return;
  i64 at = (i64)(ELEMENT / A) * C + ELEMENT % A;
  slopes[at] = slopes[at] + extra[ELEMENT];
}

// A thread a node: logits + bias → the softmax of each head
KERNEL void softmax_heads(GLOBAL float* logits, GLOBAL const float* bias, GLOBAL const int* heads, int nodes, int C) {
  int node = ELEMENT;
  if (node >= nodes) return;
  GLOBAL float* row = logits + (i64)node * C;
  for (int j = 0; j < C; j++) row[j] = row[j] + bias[j];
  for (int head = 0; head < 4; head++) {
    int size = heads[head];
    if (size == 0) continue;
    float top = row[0];
    for (int j = 1; j < size; j++) if (!(row[j] <= top)) top = row[j];
    for (int j = 0; j < size; j++) row[j] = exp_chain(row[j] - top);
    float sum = row[0];
    for (int j = 1; j < size; j++) sum = sum + row[j];
    float share = DIVIDE(1.0f, sum);
    for (int j = 0; j < size; j++) row[j] = row[j] * share;
    row += size;
  }
}

// A thread a node: told (nodes, 5): log p of the classes wanted, and how many heads choose another; p becomes its gradient
KERNEL void cross_entropy(GLOBAL float* chances, GLOBAL double* told, GLOBAL const int* targets, GLOBAL const int* heads, int nodes, int C) {
  int node = ELEMENT;
  if (node >= nodes) return;
  GLOBAL float* row = chances + (i64)node * C;
  double wrong = 0.0;
  for (int head = 0; head < 4; head++) {
    int size = heads[head], wanted = targets[4 * node + head], best = 0;
    for (int j = 1; j < size; j++) if (row[j] > row[best]) best = j;
    if (best != wanted) wrong = wrong + 1.0;
    if (size == 0) continue;
    double p = (double)row[wanted];
    told[5 * node + head] = log_chain(p < 1e-37 ? 1e-37 : p);
    row[wanted] = row[wanted] - 1.0f;
    row += size;
  }
  told[5 * node + 4] = wrong;
}

// A thread a unit: its nodes, or graphs, in order. structural (graphs): losses of matchings, where they count
KERNEL void sum_units(GLOBAL double* rows, int columns, GLOBAL const double* told, GLOBAL const double* structural, double weight, GLOBAL const int* heads, GLOBAL const int* units, GLOBAL const int* unit_graphs, GLOBAL const int* graphs, int count) {
  int unit = ELEMENT;
  if (unit >= count) return;
  double loss = 0.0, matched = 0.0, exact = 0.0;
  for (int node = units[unit]; node < units[unit + 1]; node++)
    for (int head = 0; head < 4; head++)
      if (heads[head] > 0) loss = loss - told[5 * node + head];
  for (int g = unit_graphs[unit]; g < unit_graphs[unit + 1]; g++) {
    if (weight > 0.0) matched = matched + structural[g];
    double wrong = 0.0;
    for (int node = graphs[g]; node < graphs[g + 1]; node++) wrong = wrong + told[5 * node + 4];
    if (wrong == 0.0) exact = exact + 1.0;
  }
  rows[(i64)unit * columns] = weight > 0.0 ? (0.0 + weight * matched) + loss : loss;
  if (columns == 2) rows[2 * unit + 1] = exact;
}

// Sums over a unit's rows, from 0 on: a thread a column
KERNEL void column_sums(GLOBAL float* slots, GLOBAL const float* rows, GLOBAL const int* units, int width, long size) {
  int j = ELEMENT;
  if (j >= width) return;
  float sum = 0.0f;
  for (int i = units[GROUP_Y]; i < units[GROUP_Y + 1]; i++) sum = sum + rows[(i64)i * width + j];
  slots[GROUP_Y * size + j] = sum;
}

KERNEL void embed_backward(GLOBAL float* slots, GLOBAL const float* dx, GLOBAL const int* row_starts, GLOBAL const int* rows, GLOBAL const int* units, int embed, int H, long size) {
  int j = ELEMENT;
  if (j >= H) return;
  GLOBAL float* table = slots + GROUP_Y * size + j;
  for (int row = 0; row < embed; row++) table[(i64)row * H] = 0.0f;
  for (int node = units[GROUP_Y]; node < units[GROUP_Y + 1]; node++)
    for (int e = row_starts[node]; e < row_starts[node + 1]; e++)
      table[(i64)rows[e] * H] = table[(i64)rows[e] * H] + dx[(i64)node * H + j];
}
