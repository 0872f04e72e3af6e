#include "frontend/onnx/save.h"
#include "frontend/onnx/fact.h"
#include "frontend/safetensors_write.h"
#include "ir/name_map.h"
#include <stdlib.h>
#include <string.h>

enum { PIECE = 4096 };

typedef struct saver {
  bd_ctx *ctx;
  const bd_onnx_model *model;
  int count;
  bd_stored_tensor *tensors; // by name
  const bd_onnx_tensor **sources;
  bool (*is_stopped)(void);
  bd_status status; // of reading
} saver;

static int by_name(const void *a, const void *b) {
  return strcmp(((const bd_stored_tensor *)a)->name, ((const bd_stored_tensor *)b)->name);
}

// The first reason why elements cannot be read is kept.
static bool fill(void *user, int index, int64_t first, int64_t count, float *out) {
  saver *s = user;
  bd_onnx_number piece[PIECE];
  if (s->is_stopped()) return false;
  memset(out, 0, (size_t)count * sizeof *out);
  for (int64_t done = 0; done < count && s->status == BD_OK; done += PIECE) {
    int64_t now = count - done < PIECE ? count - done : PIECE;
    s->status =
        bd_onnx_tensor_elements(s->ctx, s->model, s->sources[index], first + done, now, piece);
    for (int64_t i = 0; i < now && s->status == BD_OK; i++)
      out[done + i] = (float)piece[i].real;
  }
  return s->status == BD_OK;
}

// The initializers by name, as the graph's weights name where they are stored.
static void list_tensors(saver *s, const bd_module *graph) {
  bd_name_map names = bd_name_map_init(s->ctx->arena);
  for (int i = 0; i < s->model->value_count; i++)
    if (s->model->values[i].initializer)
      bd_name_map_add(&names, s->model->values[i].initializer->name, i);
  int64_t count = 1;
  for (int i = 0; i < graph->weight_count; i++)
    count += bd_storage_count(&graph->weights[i].storage);
  s->tensors = BD_NEW_ARRAY(s->ctx->arena, bd_stored_tensor, count);
  s->sources = BD_NEW_ARRAY(s->ctx->arena, const bd_onnx_tensor *, count);
  for (int i = 0; i < graph->weight_count; i++) {
    const bd_storage *storage = &graph->weights[i].storage;
    for (int64_t number = 0; number < bd_storage_count(storage); number++) {
      bd_stored_tensor *tensor = &s->tensors[s->count++];
      *tensor = (bd_stored_tensor){
          .name = bd_storage_name(s->ctx, storage, number), .dtype = "F32", .rank = storage->rank};
      memcpy(tensor->dims, storage->dims, sizeof tensor->dims);
    }
  }
  if (s->count > 0) qsort(s->tensors, (size_t)s->count, sizeof *s->tensors, by_name);
  int kept = 0; // weights may be slices of one tensor
  for (int i = 0; i < s->count; i++)
    if (i == 0 || strcmp(s->tensors[i].name, s->tensors[kept - 1].name) != 0)
      s->tensors[kept++] = s->tensors[i];
  s->count = kept;
  for (int i = 0; i < s->count; i++)
    s->sources[i] = s->model->values[bd_name_map_find(&names, s->tensors[i].name)].initializer;
}

bd_status bd_onnx_save_weights(bd_ctx *ctx, const bd_onnx_model *model, const bd_module *graph,
                               bool (*is_stopped)(void), const char *path) {
  saver s = {.ctx = ctx, .model = model, .is_stopped = is_stopped, .status = BD_OK};
  list_tensors(&s, graph);
  bd_status status = bd_safetensors_write(ctx, path, s.count, s.tensors, fill, &s);
  return s.status != BD_OK ? s.status : status;
}
