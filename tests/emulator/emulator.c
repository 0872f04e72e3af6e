#include "tests/emulator/emulator.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { STACK_BYTES = 1 << 18, GUARD_BYTES = 1 << 12 };

typedef enum state { READY, AT_BARRIER, AT_EXCHANGE, DONE } state;

typedef struct fiber {
  void *stack; // where it goes on
  state state;
  int word, distance; // of an exchange
} fiber;

static struct {
  pthread_mutex_t lock;
  char *stacks;
  fiber fibers[EMULATE_MAX_THREADS];
  void *scheduler; // stack of the thread that launched
  int current;     // fiber
  int warp;        // its first thread
  int block;
  emulate_grid grid;
  emulate_kernel kernel;
  void *const *arguments;
} now = {.lock = PTHREAD_MUTEX_INITIALIZER};

// Saves the registers that a call keeps on this stack, notes it in *from, goes on at `to`. A jump,
// not a return: the processor would predict that one to go back to where the switch was called.
void emulate_switch(void **from, void *to);
__asm__(".text\n"
        ".globl emulate_switch\n"
        ".type emulate_switch, @function\n"
        "emulate_switch:\n"
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  movq %rsp, (%rdi)\n"
        "  movq %rsi, %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
        "  popq %rcx\n  jmpq *%rcx\n"
        ".size emulate_switch, .-emulate_switch\n");

static void fail(const char *what, int thread) {
  fprintf(stderr, "emulator: block %d, thread %d: %s\n", now.block, thread, what);
  abort();
}

// The next thread of the warp that can run, from this one on in the order of turns, or -1.
static int find_ready(int thread) {
  const int turn = now.grid.descending ? -1 : 1;
  for (; thread >= now.warp && thread < now.warp + EMULATE_WARP; thread += turn)
    if (now.fibers[thread].state == READY) return thread;
  return -1;
}

// The last of the warp's threads to wait goes back to the scheduler.
static void wait_as(state reason) {
  fiber *self = &now.fibers[now.current];
  self->state = reason;
  const int next = find_ready(now.current);
  if (next >= 0) now.current = next;
  emulate_switch(&self->stack, next >= 0 ? now.fibers[next].stack : now.scheduler);
}

static void run_thread(void) {
  now.kernel(now.arguments[0], now.arguments[1], now.arguments[2]);
  wait_as(DONE);
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

void emulate_barrier(void) {
  wait_as(AT_BARRIER);
}

int emulate_exchange(int mask, int word, int distance, int bounds) {
  fiber *self = &now.fibers[now.current];
  if (mask != -1 || bounds != EMULATE_WARP - 1 || distance < 0 || distance >= EMULATE_WARP)
    fail("a shuffle of part of a warp", now.current);
  self->word = word;
  self->distance = distance;
  wait_as(AT_EXCHANGE);
  return self->word;
}

// The first switch pops six registers, then returns into run_thread; a function starts with its
// stack 8 bytes off a multiple of 16.
static void prepare(int thread) {
  uintptr_t top = (uintptr_t)now.stacks + ((size_t)thread + 1) * STACK_BYTES;
  top -= (uintptr_t)(thread % 32) * 192; // or all stacks would share a few lines of the caches
  void **stack = (void **)top - 8;
  for (int i = 0; i < 6; i++)
    stack[i] = NULL;
  stack[6] = (void *)(uintptr_t)run_thread;
  stack[7] = NULL;
  now.fibers[thread] = (fiber){.stack = stack};
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
}

static void exchange_words(int first) {
  int words[EMULATE_WARP];
  for (int lane = 0; lane < EMULATE_WARP; lane++) {
    const fiber *f = &now.fibers[first + lane];
    if (f->state != AT_EXCHANGE || f->distance != now.fibers[first].distance)
      fail("its warp's threads part ways at a shuffle", first + lane);
    words[lane] = f->word;
  }
  for (int lane = 0; lane < EMULATE_WARP; lane++) {
    fiber *f = &now.fibers[first + lane];
    f->word = words[lane ^ f->distance];
    f->state = READY;
  }
}

// Runs the 32 threads from `first` on until all wait for the block or are done.
static void run_warp(int first) {
  for (;;) {
    bool exchange = false;
    now.warp = first;
    now.current = find_ready(now.grid.descending ? first + EMULATE_WARP - 1 : first);
    if (now.current < 0) return;
    emulate_switch(&now.scheduler, now.fibers[now.current].stack);
    for (int i = 0; i < EMULATE_WARP; i++)
      exchange |= now.fibers[first + i].state == AT_EXCHANGE;
    if (!exchange) return;
    exchange_words(first);
  }
}

static void run_block(void) {
  int threads = now.grid.threads, done = 0;
  for (int i = 0; i < threads; i++)
    prepare(i);
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
