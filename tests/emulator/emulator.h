// Runs generated GPU kernels without a GPU, thread by thread, so that what they compute and where
// they synchronize is tested on every machine.
//
// 1. emulate_lower (lower.h, or the program `emulate-lower kernels.ll kernels.o`) turns a kernel
//    set's LLVM text into a host object: entry bdk_N becomes a C function whose by-value
//    parameters are pointers to the values; thread numbers, barriers, shuffles and products of
//    halves become calls of this library.
// 2. emulate_launch runs such a function for a whole grid. Link the object with this library, or
//    load it with dlopen into a program that exports this library's symbols.
//
// The blocks of a grid run one after another; a block's threads are fibers that run until they
// reach a barrier or a shuffle, in a fixed order. Shared memory is static and starts as NaN.
#ifndef EMULATOR_H
#define EMULATOR_H
#include <stdbool.h>
#include <stdint.h>

enum { EMULATE_WARP = 32, EMULATE_MAX_THREADS = 1024 };

typedef struct emulate_grid {
  int blocks, threads; // threads of a block: a multiple of 32
  // Blocks and threads take turns in descending order: what depends on the order comes out
  // otherwise.
  bool descending;
} emulate_grid;

// A lowered kernel of three parameters; others are cast to it and get the arguments they take.
typedef void (*emulate_kernel)(void *first, void *second, void *third);

// Runs `kernel` on every thread of the grid. `arguments`: the address of each parameter's value, as
// cuLaunchKernel takes them. One launch runs at a time; others wait. A kernel whose threads part
// ways (a barrier or shuffle that some thread of the block or warp never reaches), or read or write
// at addresses that are no multiples of what they move at once, ends the program with a message and
// abort().
void emulate_launch(emulate_kernel kernel, emulate_grid grid, void *const arguments[3]);

// What lowered kernels call.
int emulate_thread(void);
int emulate_threads(void);
int emulate_block(void);
int emulate_blocks(void);
void emulate_barrier(void);
void emulate_judge_addresses(uint64_t odd); // bits of addresses below the accesses' alignment
// The word of lane (own lane XOR distance). `place`: which exchange of the kernels this is, at all
// of whose threads a GPU looks together.
int emulate_exchange(int mask, int word, int distance, int place);
// The warp's product of 16 x 16 and 16 x 8 halves, added to sums in f32: `words` has four words of
// this thread's halves of the first operand, two of the second, and its four sums, laid out as PTX
// has them for mma.m16n8k16. The sums are replaced. `place`: which product this is.
void emulate_product_bf16(uint32_t words[10], int place);
void emulate_product_f16(uint32_t words[10], int place);
// The bits of the nearest bf16, ties to even, of what is no number 0x7fff; and of two, the first in
// the upper half.
uint16_t emulate_round(float x);
uint32_t emulate_round_both(float upper, float lower);
float emulate_power_of_two(float x);
float emulate_reciprocal(float x);
float emulate_reciprocal_root(float x);
#endif
