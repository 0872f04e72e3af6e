// Members of config.json that are none of a family's own: those of every transformers
// configuration, which describe how a model is used but not what it computes.
#include "frontend/hf/hf.h"
#include "ir/base/suggest.h"
#include "ir/base/text.h"
#include <string.h>

enum { MOST_NAMED = 8 }; // members that one diagnostic names

// Of the base class, and what tools leave behind. Members that begin with "_" are private to
// transformers and none of the model.
static const char *const common[] = {"model_type",
                                     "architectures",
                                     "transformers_version",
                                     "torch_dtype",
                                     "dtype",
                                     "use_bfloat16",
                                     "name_or_path",
                                     "tokenizer_class",
                                     "tokenizer_name",
                                     "auto_map",
                                     "torchscript",
                                     "return_dict",
                                     "output_hidden_states",
                                     "output_attentions",
                                     "output_router_logits",
                                     "use_cache",
                                     "cache_implementation",
                                     "gradient_checkpointing",
                                     "chunk_size_feed_forward",
                                     "attn_implementation",
                                     "quantization_config",
                                     "tie_word_embeddings",
                                     "tie_encoder_decoder",
                                     "add_cross_attention",
                                     "cross_attention_hidden_size",
                                     "is_decoder",
                                     "is_encoder_decoder",
                                     "pruned_heads",
                                     "initializer_range",
                                     "finetuning_task",
                                     "task_specific_params",
                                     "problem_type",
                                     "id2label",
                                     "label2id",
                                     "num_labels",
                                     "classifier_dropout",
                                     "tf_legacy_loss",
                                     "bos_token_id",
                                     "eos_token_id",
                                     "pad_token_id",
                                     "sep_token_id",
                                     "mask_token_id",
                                     "decoder_start_token_id",
                                     "forced_bos_token_id",
                                     "forced_eos_token_id",
                                     "prefix",
                                     "max_length",
                                     "min_length",
                                     "do_sample",
                                     "early_stopping",
                                     "num_beams",
                                     "num_beam_groups",
                                     "diversity_penalty",
                                     "temperature",
                                     "top_k",
                                     "top_p",
                                     "typical_p",
                                     "repetition_penalty",
                                     "length_penalty",
                                     "no_repeat_ngram_size",
                                     "encoder_no_repeat_ngram_size",
                                     "bad_words_ids",
                                     "num_return_sequences",
                                     "output_scores",
                                     "return_dict_in_generate",
                                     "remove_invalid_values",
                                     "exponential_decay_length_penalty",
                                     "suppress_tokens",
                                     "begin_suppress_tokens",
                                     "output_past",
                                     "predict_special_tokens",
                                     "n_special",
                                     "is_llama_config",
                                     "rope_interleaved",
                                     "use_mrope",
                                     "transformers.js_config",
                                     "custom_pipelines",
                                     "max_sequence_length",
                                     "unsloth_fixed",
                                     "unsloth_version",
                                     NULL};

static bool is_listed(const char *key, const char *const *keys) {
  for (int i = 0; keys[i]; ++i) {
    if (strcmp(keys[i], key) == 0) return true;
  }
  return false;
}

static bd_status refuse_heads_pruned(bd_ctx *ctx, const bd_json *json) {
  const bd_json *heads = bd_json_given(json, "pruned_heads");
  if (!heads || heads->count == 0) return BD_OK;
  return bd_fail(ctx, BD_UNSUPPORTED, heads->loc, "\"pruned_heads\" are not supported");
}

// Rows of the first GPT's table for tokens of its own.
static bd_status refuse_special(bd_ctx *ctx, const bd_json *json) {
  const bd_json *rows = bd_json_find(json, "n_special");
  int64_t none;
  if (!rows || bd_json_whole(rows, 0, 0, &none)) return BD_OK;
  return bd_fail(ctx, BD_UNSUPPORTED, rows->loc, "\"n_special\" above 0 is not supported");
}

// All that is not known, so that it is looked at once.
static bd_status refuse_unknown(bd_ctx *ctx, const bd_json *json, const char *const *own) {
  bd_text names = bd_text_init(ctx->arena);
  const bd_json *first = NULL;
  int count = 0;
  for (size_t i = 0; i < json->count; ++i) {
    const char *key = json->keys[i];
    if (key[0] == '_' || is_listed(key, common) || is_listed(key, own)) continue;
    const char *meant = bd_suggest(key, own);
    if (meant)
      return bd_fail(ctx, BD_INVALID, json->items[i].loc,
                     "\"%s\" is not known; did you mean \"%s\"?", key, meant);
    if (!first) first = &json->items[i];
    if (count < MOST_NAMED) bd_text_addf(&names, "%s\"%s\"", count > 0 ? ", " : "", key);
    ++count;
  }
  if (count == 0) return BD_OK;
  if (count > MOST_NAMED) bd_text_addf(&names, " and %d more", count - MOST_NAMED);
  const char *what =
      count == 1 ? "is not known and may change what the model computes; remove it if it does not"
                 : "are not known and may change what the model computes; remove those that do not";
  return bd_fail(ctx, BD_UNSUPPORTED, first->loc, "%s %s", names.data, what);
}

bd_status bd_hf_only_known(bd_ctx *ctx, const bd_json *json, const char *const *own) {
  static const char *const refused[] = {"add_cross_attention", "tie_encoder_decoder", "is_decoder",
                                        "rope_interleaved", "use_mrope"};
  BD_TRY(refuse_unknown(ctx, json, own));
  for (size_t i = 0; i < sizeof refused / sizeof refused[0]; ++i)
    BD_TRY(bd_hf_refuse_true(ctx, json, refused[i]));
  BD_TRY(refuse_special(ctx, json));
  return refuse_heads_pruned(ctx, json);
}
