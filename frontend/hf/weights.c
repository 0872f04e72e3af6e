#include "frontend/hf/folder.h"
#include "frontend/hf/hf.h"
#include "ir/base/text.h"
#include <stdlib.h>
#include <string.h>

// Tensors that folders have beside the model's weights: buffers that transformers computes itself
// and heads that the loss does not read. Names end so, after a dot or whole.
static const char *const passed_over[] = {"attn.bias",
                                          "attn.masked_bias",
                                          "attention.bias",
                                          "attention.masked_bias",
                                          "rotary_emb.inv_freq",
                                          "embeddings.position_ids",
                                          "pooler.dense.weight",
                                          "pooler.dense.bias",
                                          "cls.seq_relationship.weight",
                                          "cls.seq_relationship.bias",
                                          "EncDecAttention.relative_attention_bias.weight"};

// Tied weights that are stored once more: transformers trains one of them, so both must be one.
static const struct {
  const char *name, *same_as;
} twins[] = {{"lm_head.weight", "wte.weight"},
             {"lm_head.weight", "transformer.wte.weight"},
             {"lm_head.weight", "model.embed_tokens.weight"},
             {"lm_head.weight", "shared.weight"},
             {"embed_out.weight", "gpt_neox.embed_in.weight"},
             {"embed_out.weight", "embed_in.weight"},
             {"lm_head.weight", "model.decoder.embed_tokens.weight"},
             {"lm_head.weight", "decoder.embed_tokens.weight"},
             {"encoder.embed_tokens.weight", "shared.weight"},
             {"decoder.embed_tokens.weight", "shared.weight"},
             {"cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"},
             {"cls.predictions.decoder.bias", "cls.predictions.bias"},
             {"vocab_projector.weight", "distilbert.embeddings.word_embeddings.weight"},
             {"lm_head.decoder.weight", "roberta.embeddings.word_embeddings.weight"},
             {"lm_head.decoder.bias", "lm_head.bias"}};

bd_status bd_hf_is_stored(bd_ctx *ctx, const char *folder, const char *name, bool *out_stored) {
  bd_hf_folder f = {0};
  bd_owned held;
  bd_own(ctx, &held, bd_hf_folder_close, &f);
  bd_status status = bd_hf_folder_open(ctx, folder, &f);
  *out_stored = status == BD_OK && bd_hf_folder_find(&f, name, NULL) != NULL;
  bd_disown(ctx, &held);
  bd_hf_folder_close(&f);
  return status;
}

static void add_shape(bd_text *text, int rank, const int64_t *dims) {
  bd_text_add(text, "[");
  for (int d = 0; d < rank; ++d)
    bd_text_addf(text, "%s%lld", d > 0 ? ", " : "", (long long)dims[d]);
  bd_text_add(text, "]");
}

static bool is_loadable(const char *dtype) {
  return strcmp(dtype, "F32") == 0 || strcmp(dtype, "BF16") == 0 || strcmp(dtype, "F16") == 0;
}

static bd_status check_tensor(bd_ctx *ctx, const bd_hf_folder *f, const bd_storage *storage,
                              const char *name) {
  const bd_safetensors *file = NULL;
  const bd_stored_tensor *tensor = bd_hf_folder_find(f, name, &file);
  if (!tensor)
    return bd_fail(ctx, BD_INVALID, bd_loc_file(f->paths[0]),
                   "tensor \"%s\" of the model is missing", name);
  bd_loc loc = bd_loc_file(f->paths[file - f->files]);
  if (!is_loadable(tensor->dtype))
    return bd_fail(ctx, BD_UNSUPPORTED, loc,
                   "tensor \"%s\": weights of dtype %s are not supported (F32, BF16, F16)", name,
                   tensor->dtype);
  bool same = tensor->rank == storage->rank;
  for (int d = 0; same && d < tensor->rank; ++d)
    same = tensor->dims[d] == storage->dims[d];
  if (same) return BD_OK;
  bd_text shapes = bd_text_init(ctx->arena);
  add_shape(&shapes, tensor->rank, tensor->dims);
  bd_text_add(&shapes, ", but config.json makes it ");
  add_shape(&shapes, storage->rank, storage->dims);
  return bd_fail(ctx, BD_INVALID, loc, "tensor \"%s\" has shape %s", name, shapes.data);
}

static bool ends_so(const char *name, const char *ending) {
  size_t length = strlen(name), tail = strlen(ending);
  if (length < tail || strcmp(name + length - tail, ending) != 0) return false;
  return length == tail || name[length - tail - 1] == '.';
}

static bool same_data(const bd_safetensors *a, const bd_stored_tensor *x, const bd_safetensors *b,
                      const bd_stored_tensor *y) {
  size_t bytes = x->end_bytes - x->begin_bytes;
  return bytes == y->end_bytes - y->begin_bytes && x->rank == y->rank &&
         memcmp(x->dims, y->dims, (size_t)x->rank * sizeof *x->dims) == 0 &&
         strcmp(x->dtype, y->dtype) == 0 &&
         (bytes == 0 || memcmp(a->data + x->begin_bytes, b->data + y->begin_bytes, bytes) == 0);
}

bd_status bd_hf_are_apart(bd_ctx *ctx, const char *folder, const char *name, const char *other,
                          bool *out_apart) {
  bd_hf_folder f = {0};
  bd_owned held;
  bd_own(ctx, &held, bd_hf_folder_close, &f);
  const bd_safetensors *file = NULL, *other_file = NULL;
  bd_status status = bd_hf_folder_open(ctx, folder, &f);
  const bd_stored_tensor *tensor = status == BD_OK ? bd_hf_folder_find(&f, name, &file) : NULL;
  const bd_stored_tensor *twin = tensor ? bd_hf_folder_find(&f, other, &other_file) : NULL;
  *out_apart = twin && !same_data(file, tensor, other_file, twin);
  bd_disown(ctx, &held);
  bd_hf_folder_close(&f);
  return status;
}

// Whether a tensor is of a layer that predicts the tokens behind the next one (DeepSeek-V3, Liu et
// al. 2024, section 2.2), which transformers leaves out: such a layer has a matrix of this name.
static bool is_of_further_layer(bd_ctx *ctx, const bd_hf_folder *f, const char *name) {
  static const char before[] = "layers.", own[] = "eh_proj.weight";
  const char *layer = strstr(name, before);
  if (!layer) return false;
  const char *number = layer + strlen(before), *end = number + strspn(number, "0123456789");
  if (end == number || *end != '.') return false;
  const char *wanted = bd_intern_f(ctx, "%.*s.%s", (int)(end - name), name, own);
  return bd_hf_folder_find(f, wanted, NULL) != NULL;
}

// A tensor that the graph has no weight for.
static bd_status check_other(bd_ctx *ctx, const bd_hf_folder *f, int number,
                             const bd_stored_tensor *tensor) {
  const bd_safetensors *file = &f->files[number], *other = NULL;
  bd_loc loc = bd_loc_file(f->paths[number]);
  for (size_t i = 0; i < sizeof passed_over / sizeof passed_over[0]; ++i) {
    if (ends_so(tensor->name, passed_over[i])) return BD_OK;
  }
  if (is_of_further_layer(ctx, f, tensor->name)) return BD_OK;
  for (size_t i = 0; i < sizeof twins / sizeof twins[0]; ++i) {
    if (strcmp(tensor->name, twins[i].name) != 0) continue;
    const bd_stored_tensor *twin = bd_hf_folder_find(f, twins[i].same_as, &other);
    if (!twin) continue;
    if (same_data(file, tensor, other, twin)) return BD_OK;
    return bd_fail(ctx, BD_INVALID, loc,
                   "tensor \"%s\" differs from \"%s\", to which config.json ties it; if the model "
                   "has both, set \"tie_word_embeddings\" to false",
                   tensor->name, twin->name);
  }
  return bd_fail(ctx, BD_INVALID, loc, "tensor \"%s\" is none of the model that config.json makes",
                 tensor->name);
}

static int compare_names(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bd_status check_all(bd_ctx *ctx, const bd_hf_folder *f, const bd_module *graph) {
  size_t count = 0, at = 0;
  for (int i = 0; i < graph->weight_count; ++i)
    count += (size_t)bd_storage_count(&graph->weights[i].storage);
  const char **names = BD_NEW_ARRAY(ctx->arena, const char *, (int64_t)count);
  for (int i = 0; i < graph->weight_count; ++i) {
    const bd_storage *storage = &graph->weights[i].storage;
    for (int64_t number = 0; number < bd_storage_count(storage); ++number) {
      names[at] = bd_storage_name(ctx, storage, number);
      BD_TRY(check_tensor(ctx, f, storage, names[at++]));
    }
  }
  qsort(names, count, sizeof *names, compare_names);
  for (int file = 0; file < f->count; ++file)
    for (int i = 0; i < f->files[file].count; ++i) {
      const bd_stored_tensor *tensor = &f->files[file].tensors[i];
      if (bsearch(&tensor->name, names, count, sizeof *names, compare_names)) continue;
      BD_TRY(check_other(ctx, f, file, tensor));
    }
  return BD_OK;
}

bd_status bd_hf_check_weights(bd_ctx *ctx, const char *folder, const bd_module *graph) {
  bd_hf_folder f = {0};
  bd_owned held;
  bd_own(ctx, &held, bd_hf_folder_close, &f);
  bd_status status = bd_hf_folder_open(ctx, folder, &f);
  if (status == BD_OK && f.count > 0) status = check_all(ctx, &f, graph);
  bd_disown(ctx, &held);
  bd_hf_folder_close(&f);
  return status;
}
