// Compares the weights of a safetensors file with those of another or of a Hugging Face folder, all
// of float32: same tensors, and each within a relative L2 distance. A key bias has a zero gradient,
// or a very small one where rotary positions turn it, so that what moves it is rounding, normalized
// by AdamW to at most the learning rate per step: it is held to a bound of its own, per element.
#include "frontend/hf/folder.h"
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

static bool ends_so(const char *name, const char *end) {
  const size_t length = strlen(name), tail = strlen(end);
  return length >= tail && strcmp(name + length - tail, end) == 0;
}

enum { NEOX_HEAD = 16 }; // elements of a head in tests/oracle/gpt_neox

// Which of every so many elements are a key bias: of GPT-2's fused bias the middle third, of
// GPT-NeoX's that of each head.
static int64_t find_key_bias(const bd_stored_tensor *tensor, int64_t *out_first, int64_t *out_end) {
  int64_t count = count_of(tensor);
  *out_first = *out_end = 0;
  if (ends_so(tensor->name, ".attention.query_key_value.bias")) count = 3 * NEOX_HEAD;
  if (ends_so(tensor->name, ".attn.c_attn.bias") ||
      ends_so(tensor->name, ".attention.query_key_value.bias")) {
    *out_first = count / 3;
    *out_end = 2 * (count / 3);
  } else if (ends_so(tensor->name, ".self_attn.k_proj.bias") ||
             ends_so(tensor->name, ".attention.self.key.bias") ||
             ends_so(tensor->name, ".attention.attention.key.bias") ||
             ends_so(tensor->name, ".attention.k_lin.bias")) {
    *out_end = count;
  }
  return count;
}

static bool compare(const bd_safetensors *expected, const bd_stored_tensor *tensor,
                    const bd_hf_folder *found, bounds most) {
  const bd_safetensors *actual = NULL;
  const bd_stored_tensor *other = bd_hf_folder_find(found, tensor->name, &actual);
  if (!other || !same_shape(tensor, other)) {
    printf("%s: missing, or of another shape or dtype\n", tensor->name);
    return false;
  }
  const int64_t count = count_of(tensor);
  int64_t key_first, key_end;
  const int64_t every = find_key_bias(tensor, &key_first, &key_end);
  double distance = 0, size = 0, key = 0;
  for (int64_t i = 0; i < count; i++) {
    const double a = element(expected, tensor, i), difference = element(actual, other, i) - a;
    if (!isfinite(difference)) {
      printf("%s: element %lld is not finite\n", tensor->name, (long long)i);
      return false;
    }
    if (i % every >= key_first && i % every < key_end) {
      key = fmax(key, fabs(difference));
      continue;
    }
    distance += difference * difference;
    size += a * a;
  }
  const double relative = size > 0 ? sqrt(distance / size) : sqrt(distance);
  const bool good = relative <= most.relative && key <= most.key_bias;
  printf("%s: relative distance %.2e", tensor->name, relative);
  if (key_end) printf(", key bias within %.2e", key);
  printf("%s\n", good ? "" : "  TOO FAR");
  return good;
}

static bd_status open_actual(bd_ctx *ctx, const char *path, bd_hf_folder *out_found) {
  if (bd_is_folder(path)) return bd_hf_folder_open(ctx, path, out_found);
  *out_found = (bd_hf_folder){.count = 1, .files = BD_NEW(ctx->arena, bd_safetensors)};
  BD_TRY(bd_safetensors_open(ctx, path, out_found->files));
  out_found->open = 1;
  return BD_OK;
}

static int compare_files(bd_ctx *ctx, char **paths, bounds most) {
  bd_safetensors expected = {0};
  bd_hf_folder found = {0};
  int bad = 2, count = 0;
  if (bd_safetensors_open(ctx, paths[0], &expected) != BD_OK) return bad;
  if (open_actual(ctx, paths[1], &found) != BD_OK) goto cleanup;
  for (int i = 0; i < found.count; i++)
    count += found.files[i].count;
  bad = expected.count != count || count == 0;
  if (bad) printf("%d tensors are expected, not %d\n", expected.count, count);
  for (int i = 0; i < expected.count; i++)
    if (!compare(&expected, &expected.tensors[i], &found, most)) bad = 1;
cleanup:
  bd_hf_folder_close(&found);
  bd_map_close(&expected.map);
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
