#include "runtime/surplus.h"

#include "runtime/layout.h"
#include "runtime/read_at.h"

#include <stdio.h>
#include <string.h>

// Names end so, after a dot or whole. The compiler passes over the same ones in the folder that it
// compiles, but for those of batch normalization, which none of its folders have.
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
                                          "EncDecAttention.relative_attention_bias.weight",
                                          "num_batches_tracked"};

// Copies of tied weights, and what they are copies of.
static const struct {
  const char *name, *same_as;
} twins[] = {{"lm_head.weight", "wte.weight"},
             {"lm_head.weight", "model.embed_tokens.weight"},
             {"lm_head.weight", "shared.weight"},
             {"lm_head.weight", "decoder.embed_tokens.weight"},
             {"embed_out.weight", "embed_in.weight"},
             {"encoder.embed_tokens.weight", "shared.weight"},
             {"decoder.embed_tokens.weight", "shared.weight"},
             {"cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"},
             {"cls.predictions.decoder.bias", "cls.predictions.bias"},
             {"vocab_projector.weight", "distilbert.embeddings.word_embeddings.weight"},
             {"lm_head.decoder.weight", "roberta.embeddings.word_embeddings.weight"},
             {"lm_head.decoder.bias", "lm_head.bias"}};

typedef struct surplus {
  const bd_rt *rt;
  const bd_rt_source *source;
  char **used; // by file, then tensor
  char *message;
  size_t message_bytes;
} surplus;

static int ends_so(const bd_rt_tensor *tensor, const char *ending) {
  const size_t tail = strlen(ending);
  if (tensor->length < tail || strcmp(tensor->name + tensor->length - tail, ending)) return 0;
  return tensor->length == tail || tensor->name[tensor->length - tail - 1] == '.';
}

// Whether every weight of the model is there.
static int mark_used(const surplus *s) {
  const bd_rt_program *const program = s->rt->program;
  for (int stage = 0; stage < program->stages; stage++)
    for (int i = 0; i < program->stage[stage].weight_count; i++) {
      const bd_rt_weight *const weight = &program->stage[stage].weights[i];
      for (int number = 0; number < bd_rt_stored_count(weight); number++) {
        int file = 0;
        const bd_rt_tensor *const tensor =
            bd_rt_source_find(s->source, bd_rt_stored_name(weight, number), &file);
        if (!tensor) return 0;
        s->used[file][tensor - s->source->files[file].tensors] = 1;
      }
    }
  return 1;
}

// 1: the bytes are the same. 0: they are not. -1: they cannot be read.
static int same_data(const surplus *s, int file, const bd_rt_tensor *tensor, int other_file,
                     const bd_rt_tensor *other) {
  const int64_t half = BD_RT_SCRATCH_FLOATS / 2 * (int64_t)sizeof(float);
  char *const a = (char *)s->rt->scratch, *const b = a + half;
  if (tensor->dtype != other->dtype || tensor->rank != other->rank || tensor->rank < 0 ||
      tensor->bytes != other->bytes ||
      memcmp(tensor->dims, other->dims, (size_t)tensor->rank * sizeof tensor->dims[0]))
    return 0;
  for (int64_t done = 0; done < tensor->bytes; done += half) {
    const int64_t bytes = bd_rt_least(half, tensor->bytes - done);
    if (!bd_rt_read_at(s->source->files[file].fd, a, bytes, tensor->begin + done) ||
        !bd_rt_read_at(s->source->files[other_file].fd, b, bytes, other->begin + done))
      return -1;
    if (memcmp(a, b, (size_t)bytes)) return 0;
  }
  return 1;
}

// Of a layer that predicts the tokens behind the next one, which no model here has: such a layer
// has a matrix of this name.
static int is_of_further_layer(const surplus *s, const bd_rt_tensor *tensor) {
  static const char before[] = "layers.", own[] = "eh_proj.weight";
  char wanted[256];
  int file = 0;
  const char *const layer = strstr(tensor->name, before);
  if (!layer) return 0;
  const char *const number = layer + strlen(before), *const end =
                                                         number + strspn(number, "0123456789");
  const int length =
      snprintf(wanted, sizeof wanted, "%.*s.%s", (int)(end - tensor->name), tensor->name, own);
  return end > number && *end == '.' && length < (int)sizeof wanted &&
         bd_rt_source_find(s->source, wanted, &file) != NULL;
}

static int check_tensor(const surplus *s, int file, const bd_rt_tensor *tensor) {
  const char *const init = s->rt->options.init;
  for (size_t i = 0; i < sizeof passed_over / sizeof passed_over[0]; i++)
    if (ends_so(tensor, passed_over[i])) return 0;
  if (is_of_further_layer(s, tensor)) return 0;
  for (size_t i = 0; i < sizeof twins / sizeof twins[0]; i++) {
    int other_file = 0;
    if (!ends_so(tensor, twins[i].name)) continue;
    const bd_rt_tensor *const other = bd_rt_source_find(s->source, twins[i].same_as, &other_file);
    if (!other) continue;
    const int same = same_data(s, file, tensor, other_file, other);
    if (same > 0) return 0;
    if (same < 0) {
      snprintf(s->message, s->message_bytes, "%s: tensor \"%s\" cannot be read", init,
               tensor->name);
      return BD_RT_EXIT_EXTERNAL;
    }
    snprintf(s->message, s->message_bytes,
             "%s: tensor \"%s\" differs from \"%s\", to which this program ties it; if the model "
             "has both, compile it with \"tie_word_embeddings\" false",
             init, tensor->name, other->name);
    return BD_RT_EXIT_DATA;
  }
  snprintf(s->message, s->message_bytes, "%s: tensor \"%s\" is none of the program's model", init,
           tensor->name);
  return BD_RT_EXIT_DATA;
}

int bd_rt_surplus_check(const bd_rt *rt, const bd_rt_source *source, char *message,
                        size_t message_bytes) {
  surplus s = {rt, source, bd_rt_allocate((size_t)source->count, sizeof *s.used), message,
               message_bytes};
  int status = 0;
  for (int f = 0; f < source->count; f++)
    s.used[f] = bd_rt_allocate((size_t)source->files[f].count, 1);
  const int whole = mark_used(&s);
  for (int f = 0; f < source->count && whole; f++)
    for (int i = 0; i < source->files[f].count && !status; i++)
      if (!s.used[f][i]) status = check_tensor(&s, f, &source->files[f].tensors[i]);
  for (int f = 0; f < source->count; f++)
    free(s.used[f]);
  free(s.used);
  return status;
}
