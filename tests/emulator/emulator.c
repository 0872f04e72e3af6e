#include "tests/emulator/emulator.h"
#include "runtime/half.h"

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { STACK_BYTES = 1 << 18, GUARD_BYTES = 1 << 12 };

// The first two can run.
typedef enum state { NEW, READY, AT_BARRIER, AT_EXCHANGE, AT_PRODUCT, DONE } state;

typedef struct fiber {
  void *stack; // where it goes on
  int place;   // of its stack, once begun
  state state;
  int exchange;       // or product, at which it waits
  int word, distance; // of an exchange
  uint32_t *words;    // of a product
  int dtype;          // of its factors
} fiber;

static struct {
  pthread_mutex_t lock;
  char *stacks;
  fiber fibers[EMULATE_MAX_THREADS];
  int free_places[EMULATE_MAX_THREADS], free_count;
  void *scheduler; // stack of the thread that launched
  int current;     // fiber
  int warp;        // its first thread
  int block;
  emulate_grid grid;
  emulate_kernel kernel;
  void *const *arguments;
} now = {.lock = PTHREAD_MUTEX_INITIALIZER};

// Saves the registers that a call keeps on this stack, asks `chooser` for the turn to take, and
// goes on there: a thread that waits resumes with its word. One jump where a call would return,
// which the processor would predict to lead back to where this thread came from.
#define EMULATE_SWITCH(name, chooser)                                                              \
  __asm__(".text\n.globl " #name "\n.type " #name ", @function\n" #name ":\n"                      \
          "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"   \
          "  movq %rsp, %r8\n  subq $8, %rsp\n  call " #chooser "\n"                               \
          "  movq %rax, %rsp\n  movl %edx, %eax\n"                                                 \
          "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"         \
          "  popq %rcx\n  jmpq *%rcx\n"                                                            \
          ".size " #name ", .-" #name "\n")
typedef struct turn {
  void *stack;
  uint64_t word;
} turn;
turn emulate_choose_entered(int thread, int, int, int, void *stack);
turn emulate_choose_exchanged(int mask, int word, int distance, int place, void *stack);
turn emulate_choose_waiting(int reason, int, int, int, void *stack);
void emulate_enter(int thread);
void emulate_wait(int reason);
EMULATE_SWITCH(emulate_enter, emulate_choose_entered);
EMULATE_SWITCH(emulate_exchange, emulate_choose_exchanged);
EMULATE_SWITCH(emulate_wait, emulate_choose_waiting);

static void fail(const char *what, int thread) {
  fprintf(stderr, "emulator: block %d, thread %d: %s\n", now.block, thread, what);
  abort();
}

// The next thread of the warp that can run, from this one on in the order of turns, or -1.
static int find_ready(int thread) {
  const int turn = now.grid.descending ? -1 : 1;
  for (; thread >= now.warp && thread < now.warp + EMULATE_WARP; thread += turn)
    if (now.fibers[thread].state <= READY) return thread;
  return -1;
}

static void run_threads(void);

// The first switch pops six registers, then jumps into run_threads; a function starts with its
// stack 8 bytes off a multiple of 16.
static void begin(fiber *f) {
  f->place = now.free_places[--now.free_count];
  f->state = READY;
  uintptr_t top = (uintptr_t)now.stacks + ((size_t)f->place + 1) * STACK_BYTES;
  top -= (uintptr_t)(f->place % 32) * 192; // or all stacks would share a few lines of the caches
  void **stack = (void **)top - 8;
  for (int i = 0; i < 6; i++)
    stack[i] = NULL;
  stack[6] = (void *)(uintptr_t)run_threads;
  stack[7] = NULL;
  f->stack = stack;
}

// To begin or to go on.
static turn turn_of(int thread) {
  fiber *f = &now.fibers[thread];
  if (f->state == NEW) begin(f);
  now.current = thread;
  return (turn){f->stack, (unsigned)f->word};
}

// The last of the warp's threads to wait goes back to the scheduler.
static turn wait_as(fiber *self, state reason, void *stack) {
  self->state = reason;
  self->stack = stack;
  const int next = find_ready(now.current);
  return next >= 0 ? turn_of(next) : (turn){now.scheduler, 0};
}

turn emulate_choose_entered(int thread, int b, int c, int d, void *stack) {
  now.scheduler = stack;
  return turn_of(thread);
}

turn emulate_choose_waiting(int reason, int b, int c, int d, void *stack) {
  return wait_as(&now.fibers[now.current], (state)reason, stack);
}

turn emulate_choose_exchanged(int mask, int word, int distance, int place, void *stack) {
  fiber *self = &now.fibers[now.current];
  if (mask != -1 || distance < 0 || distance >= EMULATE_WARP)
    fail("a shuffle of part of a warp", now.current);
  self->exchange = place;
  self->word = word;
  self->distance = distance;
  return wait_as(self, AT_EXCHANGE, stack);
}

// A thread that ends leaves its stack, still in the caches, to the next that begins: without
// barriers and shuffles one is enough.
static void run_threads(void) {
  for (;;) {
    now.kernel(now.arguments[0], now.arguments[1], now.arguments[2]);
    fiber *self = &now.fibers[now.current];
    self->state = DONE;
    const int next = find_ready(now.current);
    if (next < 0 || now.fibers[next].state != NEW) {
      now.free_places[now.free_count++] = self->place;
      emulate_wait(DONE);
    }
    now.fibers[next] = (fiber){.place = self->place, .state = READY};
    now.current = next;
  }
}

int emulate_thread(void) {
  return now.current;
}
int emulate_threads(void) {
  return now.grid.threads;
}
int emulate_block(void) {
  return now.block;
}
int emulate_blocks(void) {
  return now.grid.blocks;
}

void emulate_judge_addresses(uint64_t odd) {
  if (odd) fail("an address is no multiple of what is read or written there", now.current);
}

void emulate_barrier(void) {
  emulate_wait(AT_BARRIER);
}

static void multiply(uint32_t *words, int dtype, int place) {
  fiber *self = &now.fibers[now.current];
  self->exchange = place;
  self->words = words;
  self->dtype = dtype;
  emulate_wait(AT_PRODUCT);
}

void emulate_product_bf16(uint32_t words[10], int place) {
  multiply(words, BD_RT_BF16, place);
}

void emulate_product_f16(uint32_t words[10], int place) {
  multiply(words, BD_RT_F16, place);
}

uint16_t emulate_round(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  if (isnan(x)) return 0x7fff;
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

uint32_t emulate_round_both(float upper, float lower) {
  return (uint32_t)emulate_round(upper) << 16 | emulate_round(lower);
}

// Numbers below the smallest normal one are 0.
static float flushed(float x) {
  return fabsf(x) < FLT_MIN ? copysignf(0, x) : x;
}

float emulate_power_of_two(float x) {
  return flushed(exp2f(flushed(x)));
}

float emulate_reciprocal(float x) {
  return flushed(1 / flushed(x));
}

float emulate_reciprocal_root(float x) {
  return (float)(1 / sqrt(flushed(x)));
}

static void make_stacks(void) {
  if (now.stacks) return;
  size_t bytes = (size_t)EMULATE_MAX_THREADS * STACK_BYTES;
  now.stacks =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (now.stacks == MAP_FAILED) fail("no memory for stacks", 0);
  for (int i = 0; i < EMULATE_MAX_THREADS; i++)
    if (mprotect(now.stacks + (size_t)i * STACK_BYTES, GUARD_BYTES, PROT_NONE))
      fail("no guards for stacks", i);
  for (int i = 0; i < EMULATE_MAX_THREADS; i++)
    now.free_places[now.free_count++] = EMULATE_MAX_THREADS - 1 - i;
}

static void exchange_words(int first) {
  int words[EMULATE_WARP];
  for (int lane = 0; lane < EMULATE_WARP; lane++) {
    const fiber *f = &now.fibers[first + lane];
    if (f->state != AT_EXCHANGE || f->exchange != now.fibers[first].exchange)
      fail("its warp's threads part ways at a shuffle", first + lane);
    words[lane] = f->word;
  }
  for (int lane = 0; lane < EMULATE_WARP; lane++) {
    fiber *f = &now.fibers[first + lane];
    f->word = words[lane ^ f->distance];
    f->state = READY;
  }
}

// Of a product of words: rows of the first operand, columns of the second, and what is summed over.
enum { ROWS = 16, COLUMNS = 8, SUMMED = 16, FIRST_OF_SECOND = 4, FIRST_SUM = 6 };

// A row of all columns, for the processor's vectors.
typedef double columns __attribute__((vector_size(COLUMNS * sizeof(double))));

static void gather_operands(int first, double left[ROWS][SUMMED], columns right[SUMMED]) {
  const int dtype = now.fibers[first].dtype;
  for (int lane = 0; lane < EMULATE_WARP; lane++) {
    const fiber *f = &now.fibers[first + lane];
    if (f->state != AT_PRODUCT || f->exchange != now.fibers[first].exchange)
      fail("its warp's threads part ways at a product", first + lane);
    const int row = lane / 4, column = lane % 4 * 2;
    for (int i = 0; i < FIRST_SUM; i++)
      for (int k = 0; k < 2; k++) {
        const double factor = (double)bd_rt_from_half(dtype, (uint16_t)(f->words[i] >> k * 16));
        if (i < FIRST_OF_SECOND)
          left[row + i % 2 * 8][column + i / 2 * 8 + k] = factor;
        else
          right[column + (i - FIRST_OF_SECOND) * 8 + k][row] = factor;
      }
  }
}

// The place of a sum: bits of the lane and of the word in it.
static uint32_t *sum_at(int first, int row, int column) {
  const fiber *f = &now.fibers[first + row % 8 * 4 + column / 2];
  return &f->words[FIRST_SUM + row / 8 * 2 + column % 2];
}

// The sums are exact before they are rounded once, where a GPU's are not quite.
static void multiply_words(int first) {
  double left[ROWS][SUMMED];
  columns right[SUMMED];
  gather_operands(first, left, right);
  for (int row = 0; row < ROWS; row++) {
    columns exact;
    float sum;
    for (int column = 0; column < COLUMNS; column++) {
      memcpy(&sum, sum_at(first, row, column), sizeof sum);
      exact[column] = (double)sum;
    }
    for (int k = 0; k < SUMMED; k++)
      exact += left[row][k] * right[k];
    for (int column = 0; column < COLUMNS; column++) {
      sum = (float)exact[column];
      memcpy(sum_at(first, row, column), &sum, sizeof sum);
    }
  }
  for (int lane = 0; lane < EMULATE_WARP; lane++)
    now.fibers[first + lane].state = READY;
}

// Runs the 32 threads from `first` on until all wait for the block or are done.
static void run_warp(int first) {
  for (;;) {
    bool exchange = false, product = false;
    now.warp = first;
    const int next = find_ready(now.grid.descending ? first + EMULATE_WARP - 1 : first);
    if (next < 0) return;
    emulate_enter(next);
    for (int i = 0; i < EMULATE_WARP; i++) {
      exchange |= now.fibers[first + i].state == AT_EXCHANGE;
      product |= now.fibers[first + i].state == AT_PRODUCT;
    }
    if (!exchange && !product) return;
    (product ? multiply_words : exchange_words)(first);
  }
}

static void run_block(void) {
  int threads = now.grid.threads, done = 0;
  for (int i = 0; i < threads; i++)
    now.fibers[i].state = NEW;
  while (!done) {
    for (int i = 0; i < threads; i += EMULATE_WARP)
      run_warp(now.grid.descending ? threads - EMULATE_WARP - i : i);
    done = now.fibers[0].state == DONE;
    for (int i = 0; i < threads; i++) {
      if ((now.fibers[i].state == DONE) != done) fail("part of the block waits at a barrier", i);
      if (!done) now.fibers[i].state = READY;
    }
  }
}

void emulate_launch(emulate_kernel kernel, emulate_grid grid, void *const arguments[3]) {
  pthread_mutex_lock(&now.lock);
  if (grid.blocks < 1 || grid.threads < EMULATE_WARP || grid.threads > EMULATE_MAX_THREADS ||
      grid.threads % EMULATE_WARP)
    fail("no such grid", grid.threads);
  make_stacks();
  now.grid = grid;
  now.kernel = kernel;
  now.arguments = arguments;
  for (int i = 0; i < grid.blocks; i++) {
    now.block = grid.descending ? grid.blocks - 1 - i : i;
    run_block();
  }
  pthread_mutex_unlock(&now.lock);
}
