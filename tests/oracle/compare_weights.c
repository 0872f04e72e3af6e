// Compares the weights of two safetensors files of float32: same tensors, and each within a
// relative L2 distance. GPT-2's key bias has a zero gradient, so that what moves it is rounding,
// normalized by AdamW to at most the learning rate per step: it is held to a bound of its own, per
// element.
#include "frontend/safetensors.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct bounds {
  double relative;
  double key_bias; // steps x learning rate
} bounds;

static float element(const bd_safetensors *file, const bd_stored_tensor *tensor, int64_t index) {
  float value;
  memcpy(&value, file->data + tensor->begin_bytes + (size_t)index * sizeof value, sizeof value);
  return value;
}

static int64_t count_of(const bd_stored_tensor *tensor) {
  int64_t count = 1;
  for (int d = 0; d < tensor->rank; d++)
    count *= tensor->dims[d];
  return count;
}

static bool same_shape(const bd_stored_tensor *a, const bd_stored_tensor *b) {
  if (strcmp(a->dtype, "F32") || strcmp(b->dtype, "F32") || a->rank != b->rank) return false;
  return memcmp(a->dims, b->dims, (size_t)a->rank * sizeof a->dims[0]) == 0;
}

// The key bias is the middle third of the fused one.
static bool is_fused_bias(const char *name) {
  static const char end[] = ".attn.c_attn.bias";
  const size_t length = strlen(name);
  return length >= sizeof end - 1 && strcmp(name + length - (sizeof end - 1), end) == 0;
}

static bool compare(const bd_safetensors *expected, const bd_stored_tensor *tensor,
                    const bd_safetensors *actual, bounds most) {
  const bd_stored_tensor *other = bd_safetensors_find(actual, tensor->name);
  if (!other || !same_shape(tensor, other)) {
    printf("%s: missing, or of another shape or dtype\n", tensor->name);
    return false;
  }
  const int64_t count = count_of(tensor);
  const bool fused = is_fused_bias(tensor->name);
  double distance = 0, size = 0, key = 0;
  for (int64_t i = 0; i < count; i++) {
    const double a = element(expected, tensor, i), difference = element(actual, other, i) - a;
    if (!isfinite(difference)) {
      printf("%s: element %lld is not finite\n", tensor->name, (long long)i);
      return false;
    }
    if (fused && i >= count / 3 && i < 2 * (count / 3)) {
      key = fmax(key, fabs(difference));
      continue;
    }
    distance += difference * difference;
    size += a * a;
  }
  const double relative = size > 0 ? sqrt(distance / size) : sqrt(distance);
  const bool good = relative <= most.relative && key <= most.key_bias;
  printf("%s: relative distance %.2e", tensor->name, relative);
  if (fused) printf(", key bias within %.2e", key);
  printf("%s\n", good ? "" : "  TOO FAR");
  return good;
}

static int compare_files(bd_ctx *ctx, char **paths, bounds most) {
  bd_safetensors files[2] = {0};
  int bad = 2;
  if (bd_safetensors_open(ctx, paths[0], &files[0]) != BD_OK) return bad;
  if (bd_safetensors_open(ctx, paths[1], &files[1]) != BD_OK) goto cleanup;
  bad = files[0].count != files[1].count || files[0].count == 0;
  if (bad) printf("%d tensors are expected, not %d\n", files[0].count, files[1].count);
  for (int i = 0; i < files[0].count; i++)
    if (!compare(&files[0], &files[0].tensors[i], &files[1], most)) bad = 1;
  bd_map_close(&files[1].map);
cleanup:
  bd_map_close(&files[0].map);
  return bad;
}

int main(int argc, char **argv) {
  if (argc != 5) {
    fprintf(stderr, "usage: compare_weights EXPECTED ACTUAL RELATIVE KEY_BIAS\n");
    return 2;
  }
  const bounds most = {strtod(argv[3], NULL), strtod(argv[4], NULL)};
  bd_ctx *ctx = bd_ctx_create();
  if (!ctx) return 2;
  const int bad = compare_files(ctx, argv + 1, most);
  bd_diags_print(ctx, stderr, false);
  bd_ctx_destroy(ctx);
  return bad;
}
