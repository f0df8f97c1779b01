// A CPU that plays an NVIDIA GPU: the words of CUDA that our texts use (samebits/devices/gpu/dialect.py). Every thread of a group is a
// fiber, which runs until it has to wait; groups come one after the other. Where a GPU may choose, the worst is chosen: threads
// go as far as they can before anybody else moves, in the order that is asked for; memory on the chip is full of NaNs when a
// group begins; what is sent there arrives when it is waited for, not before. Threads that wait for each other in different
// places, lanes that are missing when a warp meets, and what is sent but not waited for are errors.

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <utility>
#include <vector>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif
#undef INFINITY
#undef NAN
#undef min
#undef max

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static __attribute__((section("on_the_chip")))
#define __syncthreads() stand_in::meet(__LINE__)
#define isfinite(x) __builtin_isfinite(x)

struct alignas(16) float4 { float x, y, z, w; };
struct alignas(16) int4 { int x, y, z, w; };
struct Index { int x, y; };
static Index blockIdx, gridDim, blockDim, threadIdx;

template <class T> static T min(T a, T b) { return b < a ? b : a; }
template <class T> static T max(T a, T b) { return a < b ? b : a; }
template <class To, class From> static To same_bits(From x) {
  To found;
  memcpy(&found, &x, sizeof found);
  return found;
}
static inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }
static inline float __fsqrt_rn(float x) { return __builtin_sqrtf(x); }
static inline double __dsqrt_rn(double x) { return __builtin_sqrt(x); }
static inline float __fdiv_rn(float x, float y) { return x / y; }
static inline float floorf(float x) { return __builtin_floorf(x); }
static inline float __int_as_float(int x) { return same_bits<float>(x); }
static inline int __float_as_int(float x) { return same_bits<int>(x); }
static inline double __longlong_as_double(long long x) { return same_bits<double>(x); }
static inline long long __double_as_longlong(double x) { return same_bits<long long>(x); }
static inline uint64_t __umul64hi(uint64_t a, uint64_t b) { return (unsigned __int128)a * b >> 64; }

extern char __start_on_the_chip[] __attribute__((weak)), __stop_on_the_chip[] __attribute__((weak));

namespace stand_in {

enum State { READY, AT_BARRIER, AT_WARP, DONE };
const int MOST = 1024, WARP = 32;
const size_t STACK = 256 << 10, ROOM = 228 << 10;

struct Copy { void* to; const void* from; int lot; };

struct Fiber {
  ucontext_t begin;
  jmp_buf at;
  void* stack;
  bool begun;
  State state;
  int line, distance, lots;  // where it waits; with whom; how many lots were sent
  uint64_t shown[2];  // to the warp, by turns
  unsigned turn;
  std::vector<Copy> sent;
};

static Fiber fibers[MOST];
static Fiber* current;
static jmp_buf scheduler;
static void (*body)(void**);
static void** arguments;
static char problem[200];
alignas(256) static char room[ROOM];

static void fail(const char* what, int a, int b) {
  if (!problem[0]) snprintf(problem, sizeof problem, what, a, b);
}

static void pause(State state) {
  current->state = state;
  if (!_setjmp(current->at)) _longjmp(scheduler, 1);
}

static void live() {
  for (;;) {
    body(arguments);
    if (!current->sent.empty()) fail("thread %d sent %d fours and did not wait for them", current - fibers, (int)current->sent.size());
    current->sent.clear();
    pause(DONE);
  }
}

static void resume(Fiber* fiber) {
  current = fiber;
  threadIdx.x = fiber - fibers;
  if (_setjmp(scheduler)) return;
  if (fiber->begun) _longjmp(fiber->at, 1);
  fiber->begun = true;
  getcontext(&fiber->begin);
  if (!fiber->stack) fiber->stack = mmap(0, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  fiber->begin.uc_stack.ss_sp = fiber->stack;
  fiber->begin.uc_stack.ss_size = STACK;
  makecontext(&fiber->begin, live, 0);
  setcontext(&fiber->begin);
}

static void meet(int line) {
  current->line = line;
  pause(AT_BARRIER);
}

static void send(void* to, const void* from) { current->sent.push_back({to, from, current->lots}); }

static void end_of_lot() { current->lots++; }

static void wait_for_lot(int later) {
  std::vector<Copy> left;
  for (Copy& one : current->sent)
    if (one.lot < current->lots - later) memcpy(one.to, one.from, 16);
    else left.push_back(one);
  current->sent.swap(left);
}

template <class T> static T across(T x, int distance) {
  Fiber* own = current;
  unsigned turn = own->turn++ & 1;
  memcpy(&own->shown[turn], &x, sizeof x);
  own->distance = distance;
  pause(AT_WARP);
  memcpy(&x, &fibers[(own - fibers) ^ distance].shown[turn], sizeof x);
  return x;
}

// All of a group that are not done wait at one barrier, or all of a warp for each other: those go on.
static bool let_go(int threads) {
  bool found = false, all = true;
  int line = -1;
  for (int i = 0; i < threads; i++) {
    if (fibers[i].state == DONE) continue;
    if (fibers[i].state != AT_BARRIER) all = false;
    else if (line < 0) line = fibers[i].line;
    else if (line != fibers[i].line) fail("threads wait at barriers of lines %d and %d", line, fibers[i].line);
  }
  for (int i = 0; all && i < threads; i++)
    if (fibers[i].state == AT_BARRIER) {
      fibers[i].state = READY;
      found = true;
    }
  for (int first = 0; first < threads; first += WARP) {
    int many = 0;
    for (int i = first; i < first + WARP && i < threads; i++)
      many += fibers[i].state == AT_WARP && fibers[i].distance == fibers[first].distance;
    for (int i = first; many == WARP && i < first + WARP; i++) fibers[i].state = READY;
    found = found || many == WARP;
  }
  return found;
}

static void group(int threads, int order) {
  static unsigned drawn = 1;
  int at[MOST];
  memset(room, 0xff, sizeof room);
  if (__start_on_the_chip) memset(__start_on_the_chip, 0xff, __stop_on_the_chip - __start_on_the_chip);
  for (int i = 0; i < threads; i++) {
    fibers[i].state = READY;
    at[i] = order == 1 ? threads - 1 - i : i;
  }
  for (;;) {
    for (int i = threads - 1; order == 2 && i > 0; i--) {
      drawn = drawn * 1664525u + 1013904223u;
      std::swap(at[i], at[(uint64_t)drawn * (i + 1) >> 32]);
    }
    for (int i = 0; i < threads; i++)
      if (fibers[at[i]].state == READY) resume(&fibers[at[i]]);
    int done = 0;
    for (int i = 0; i < threads; i++) done += fibers[i].state == DONE;
    if (done == threads || problem[0]) return;
    if (!let_go(threads)) return fail("%d of %d threads are done, the others wait for each other in vain", done, threads);
  }
}

template <class... Given, size_t... I>
static void call(void (*kernel)(Given...), void** given, std::index_sequence<I...>) {
  kernel(*(Given*)given[I]...);
}

template <class... Given> static void call(void (*kernel)(Given...), void** given) {
  call(kernel, given, std::index_sequence_for<Given...>());
}

// What went wrong, or an empty text.
static const char* launch(void (*kernel)(void**), void** given, int groups, int groups_y, int threads, int order) {
#if defined(__x86_64__)
  unsigned mode = _mm_getcsr();
  _mm_setcsr(mode | 0x8040);
#elif defined(__aarch64__)
  uint64_t mode;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  asm volatile("msr fpcr, %0" ::"r"(mode | 1 << 24));
#endif
  for (int i = 0; problem[0] && i < MOST; i++) {  // nobody goes on where it was
    fibers[i].begun = false;
    fibers[i].sent.clear();
  }
  body = kernel;
  arguments = given;
  gridDim = {groups, groups_y};
  blockDim = {threads, 1};
  problem[0] = 0;
  for (int i = 0; i < groups * groups_y && !problem[0]; i++) {
    int which = order ? groups * groups_y - 1 - i : i;
    blockIdx = {which % groups, which / groups};
    group(threads, order);
  }
#if defined(__x86_64__)
  _mm_setcsr(mode);
#elif defined(__aarch64__)
  asm volatile("msr fpcr, %0" ::"r"(mode));
#endif
  return problem;
}

}  // namespace stand_in

#define __shfl_xor_sync(mask, x, distance) stand_in::across(x, distance)
#define START(kernel)                                                                                                      \
  static void call_##kernel(void** given) { stand_in::call(kernel, given); }                                               \
  extern "C" __attribute__((visibility("default"))) const char* start_##kernel(void** given, int x, int y, int threads, int order) { \
    return stand_in::launch(call_##kernel, given, x, y, threads, order);                                                   \
  }
