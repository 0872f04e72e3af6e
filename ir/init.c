#include "ir/init.h"
#include "ir/interpret.h"
#include <math.h>

// The last counter word of draws for initial weights; no step reaches it.
#define DOMAIN_INIT 0x80000001u
#define TWO_PI 6.283185307179586477

// Box and Muller's normal from two uniforms, the first of them never zero.
static float draw(const bd_weight *weight, int index, uint64_t seed, int64_t element) {
  const uint32_t counter[4] = {(uint32_t)element, (uint32_t)((uint64_t)element >> 32),
                               (uint32_t)index, DOMAIN_INIT};
  const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
  uint32_t words[4];
  bd_philox(counter, key, words);
  float scale = (float)weight->init_scale;
  if (weight->init == BD_INIT_UNIFORM) return (2 * ((float)(words[0] >> 8) * 0x1p-24f) - 1) * scale;
  double u = ((double)(words[0] >> 8) + 1) * 0x1p-24, v = (double)(words[1] >> 8) * 0x1p-24;
  return (float)(sqrt(-2 * log(u)) * cos(TWO_PI * v)) * scale;
}

float bd_init_element(const bd_weight *weight, int index, uint64_t seed, int64_t element) {
  if (weight->init == BD_INIT_ZEROS) return 0;
  if (weight->init == BD_INIT_ONES) return 1;
  return draw(weight, index, seed, element);
}

int64_t bd_storage_to_logical(const bd_storage *storage, int64_t flat) {
  int64_t dims[BD_MAX_RANK], at[BD_MAX_RANK];
  for (int d = storage->rank - 1; d >= 0; d--) {
    dims[d] = storage->dims[d];
    at[d] = flat % dims[d];
    flat /= dims[d];
  }
  int sliced = storage->slice_dim;
  if (sliced >= 0) {
    int64_t size = storage->slice_size, every = storage->slice_every;
    int64_t turn = every > 0 ? at[sliced] / every : 0;
    at[sliced] -= turn * every + storage->slice_start;
    if (at[sliced] < 0 || at[sliced] >= size) return -1;
    at[sliced] += turn * size;
    dims[sliced] = every > 0 ? dims[sliced] / every * size : size;
  }
  if (storage->transpose && storage->rank == 2) return (flat * dims[1] + at[1]) * dims[0] + at[0];
  int64_t logical = flat; // what is left of it: the number of the tensor in its stack
  for (int d = 0; d < storage->rank; d++)
    logical = logical * dims[d] + at[d];
  return logical;
}
