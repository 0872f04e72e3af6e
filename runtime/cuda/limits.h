// How much the runtime's kernels do at once.
#ifndef BD_RT_CUDA_LIMITS_H
#define BD_RT_CUDA_LIMITS_H

enum {
  BD_CUDA_THREADS = 256,     // of a block
  BD_CUDA_LIST_BYTES = 4096, // of what a launch takes by value
  BD_CUDA_LANES = 1 << 16,   // most partial sums of one tensor
  BD_CUDA_SQUARE_GROUPS = 256,
  BD_CUDA_SQUARE_LANES = 1 << 20, // most partial sums of one launch for several tensors
  BD_CUDA_F8_LANES = 1 << 16,     // most partial maxima of bd_cuda_round_f8
  BD_CUDA_F8_ROOM = BD_CUDA_F8_LANES + 512,
  BD_CUDA_EMBED_TOKENS = 1 << 13,
  BD_CUDA_EMBED_BYTES = 10 << 20,   // of sums of tokens
  BD_CUDA_FACTORS_BYTES = 11 << 20, // of Adafactor's sums
};
#endif
