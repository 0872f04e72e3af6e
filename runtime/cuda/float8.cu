// Factors of products in 8 bits: the scale of the largest number, and the rounded copy that
// cublasLt's products in 8 bits take, with the terms of a sum one after another.
#include "runtime/cuda/device.cuh"
#include "runtime/float8.h"

enum { RUN = BD_RT_F8_GRAIN };

// Element of row `row` and term `term`.
static __device__ int64_t place_of(const bd_cuda_factor &f, int64_t row, int64_t term) {
  return row / f.each * f.batch_stride + row % f.each * f.row_stride + term * f.term_stride;
}

// Lane l takes elements l, l + lanes, ... in the order in which they lie in memory.
BD_ENTRY bd_k_find_most(bd_cuda_factor f, int64_t lanes, uint32_t *most) {
  const int64_t count = f.rows * f.terms;
  BD_FOR_ITEMS(lane, lanes) {
    uint32_t largest = 0;
    for (int64_t i = lane; i < count; i += lanes) {
      const int64_t at = f.term_stride == 1 ? place_of(f, i / f.terms, i % f.terms)
                                            : place_of(f, i % f.rows, i / f.rows);
      const uint32_t size = f.data[at] & 0x7FFF;
      largest = size > largest ? size : largest;
    }
    most[lane] = largest;
  }
}

// Of factors without gaps, 16 bytes at a time: which rows they are of makes no difference.
BD_ENTRY bd_k_find_most_packed(const uint4 *data, int64_t packs, int64_t lanes, uint32_t *most) {
  BD_FOR_ITEMS(lane, lanes) {
    uint32_t largest = 0;
    for (int64_t i = lane; i < packs; i += lanes) {
      const uint4 pack = data[i];
      const uint32_t words[] = {pack.x, pack.y, pack.z, pack.w};
      for (int w = 0; w < 4; w++) {
        const uint32_t low = words[w] & 0x7FFF, high = words[w] >> 16 & 0x7FFF;
        const uint32_t size = high > low ? high : low;
        largest = size > largest ? size : largest;
      }
    }
    most[lane] = largest;
  }
}

// The largest of `each` numbers, for each group.
BD_ENTRY bd_k_find_most_of_groups(const uint32_t *in, int64_t each, int64_t groups,
                                  uint32_t *most) {
  BD_FOR_ITEMS(group, groups) {
    uint32_t largest = 0;
    for (int64_t i = 0; i < each; i++) {
      const uint32_t size = in[group * each + i];
      largest = size > largest ? size : largest;
    }
    most[group] = largest;
  }
}

BD_ENTRY bd_k_set_scale(int format, const uint32_t *most, float *scale, float *inverse) {
  BD_FOR_ITEMS(i, 1) {
    scale[i] = bd_rt_f8_scale(format, most[i] << 16);
    inverse[i] = bd_rt_f8_inverse(scale[i]);
  }
}

struct alignas(RUN) run {
  uint8_t codes[RUN];
};
struct alignas(RUN) halves {
  uint16_t number[RUN];
};

// Runs of terms; those of neighbouring threads are read from neighbouring places. `packed`: a run's
// terms lie one after another, from a multiple of 16 bytes on.
BD_ENTRY bd_k_round_runs(bd_cuda_factor f, int packed, const float *scale, uint4 *out) {
  const int64_t runs = f.terms / RUN;
  BD_FOR_ITEMS(i, f.rows * runs) {
    const int64_t row = f.term_stride == 1 ? i / runs : i % f.rows;
    const int64_t first = f.term_stride == 1 ? i % runs : i / f.rows;
    halves read;
    run made;
    if (packed)
      read = *(const halves *)(f.data + place_of(f, row, first * RUN));
    else
      for (int j = 0; j < RUN; j++)
        read.number[j] = f.data[place_of(f, row, first * RUN + j)];
    for (int j = 0; j < RUN; j++)
      made.codes[j] = bd_rt_to_f8(f.format, bd_rt_from_bf16(read.number[j]) * *scale);
    ((run *)(void *)out)[row * runs + first] = made;
  }
}
