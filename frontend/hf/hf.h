// Hugging Face folders: config.json decides the graph; safetensors, where there are any, must
// agree.
#ifndef BD_FRONTEND_HF_HF_H
#define BD_FRONTEND_HF_HF_H
#include "frontend/transformer.h"
#include "ir/base/json.h"

// Errors: BD_INVALID for what is wrong, BD_UNSUPPORTED for families and options that braid does not
// know, at their place in config.json.
BD_NODISCARD bd_status bd_hf_load(bd_ctx *ctx, const char *folder, const bd_model_options *options,
                                  bd_module **out_graph);

BD_NODISCARD bd_status bd_hf_gpt2_config(bd_ctx *ctx, const bd_json *json,
                                         bd_gpt2_config *out_config);
// `model_type`: one of those that are built like Llama.
BD_NODISCARD bd_status bd_hf_llama_config(bd_ctx *ctx, const bd_json *json, const char *model_type,
                                          bd_llama_config *out_config);
BD_NODISCARD bd_status bd_hf_neox_config(bd_ctx *ctx, const bd_json *json,
                                         bd_neox_config *out_config);
BD_NODISCARD bd_status bd_hf_opt_config(bd_ctx *ctx, const bd_json *json,
                                        bd_opt_config *out_config);
BD_NODISCARD bd_status bd_hf_bert_config(bd_ctx *ctx, const bd_json *json,
                                         bd_bert_config *out_config);
// `model_type`: one of those that are built like RoBERTa.
BD_NODISCARD bd_status bd_hf_roberta_config(bd_ctx *ctx, const bd_json *json,
                                            const char *model_type, bd_bert_config *out_config);
BD_NODISCARD bd_status bd_hf_distilbert_config(bd_ctx *ctx, const bd_json *json,
                                               bd_bert_config *out_config);
BD_NODISCARD bd_status bd_hf_vit_config(bd_ctx *ctx, const bd_json *json,
                                        bd_vit_config *out_config);
BD_NODISCARD bd_status bd_hf_t5_config(bd_ctx *ctx, const bd_json *json, bd_t5_config *out_config);

// Refuses members that neither the family has (`own`, which ends with NULL) nor every
// configuration, and those that would change what the model computes.
BD_NODISCARD bd_status bd_hf_only_known(bd_ctx *ctx, const bd_json *json, const char *const *own);

// transformers' names for models of one family: one body serves many tasks, of which braid builds
// one.
enum { BD_HF_MOST_BUILT = 2 };
typedef struct bd_hf_architectures {
  const char *built[BD_HF_MOST_BUILT]; // the task that is built, under each of its names
  const char *more; // has another head beside it, which the loss does not read; or NULL
  const char *body; // has no head, which where the output matrix is tied lacks nothing; or NULL
  bool tied;        // where the configuration does not say
} bd_hf_architectures;

// Refuses a folder whose member "architectures" names another model than those that `known` of the
// family `model_type` allows; warns of one that has another head beside it.
BD_NODISCARD bd_status bd_hf_check_architectures(bd_ctx *ctx, const bd_json *json,
                                                 const char *model_type,
                                                 const bd_hf_architectures *known);

// Of the member, or of the whole where it is absent.
bd_loc bd_hf_place(const bd_json *json, const char *key);

// Refuses a folder whose weights are quantized.
BD_NODISCARD bd_status bd_hf_check_quantized(bd_ctx *ctx, const char *folder, const bd_json *json,
                                             const char *model_type);

// Members that every family shares. Absent members take the value that is in `*out` already, as
// transformers writes only what differs from its defaults.
BD_NODISCARD bd_status bd_hf_extent(bd_ctx *ctx, const bd_json *json, const char *key,
                                    int64_t *out);
BD_NODISCARD bd_status bd_hf_probability(bd_ctx *ctx, const bd_json *json, const char *key,
                                         double *out);
BD_NODISCARD bd_status bd_hf_activation(bd_ctx *ctx, const bd_json *json, const char *key,
                                        bd_op_kind *out);
// What a value stays below in size, above 0; null: it is not held.
BD_NODISCARD bd_status bd_hf_cap(bd_ctx *ctx, const bd_json *json, const char *key, double *out);
// Whether transformers' `name` is that of an activation that is known.
bool bd_hf_find_activation(const char *name, bd_op_kind *out);
// Sizes that a configuration may leave out.
typedef struct bd_hf_size {
  const char *key;
  int64_t taken;
} bd_hf_size;
// Warns of those that are absent or null, and says what is taken for them: a key with a typing
// error is one that is absent. `sizes` ends with a NULL key.
void bd_hf_tell_defaults(bd_ctx *ctx, const bd_json *json, const bd_hf_size *sizes);
// Refuses a size that does not divide another one; `key` and `of_key`: their members.
BD_NODISCARD bd_status bd_hf_divides(bd_ctx *ctx, const bd_json *json, const char *key,
                                     int64_t size, const char *of_key, int64_t of);
// The member pad_token_id, below `vocabulary`; -1 where it is null.
BD_NODISCARD bd_status bd_hf_padding(bd_ctx *ctx, const bd_json *json, int64_t vocabulary,
                                     int64_t *out);
// A member of config.json, or of the object that is its member `within`; NULL: there is no object.
typedef struct bd_hf_member {
  const bd_json *object;
  const char *within, *key;
} bd_hf_member;
// Of members that say one thing, those that are there, and not null, must say the same. Errors:
// BD_INVALID with two that differ.
BD_NODISCARD bd_status bd_hf_agree(bd_ctx *ctx, int count, const bd_hf_member *members);
BD_NODISCARD bd_status bd_hf_agree_keys(bd_ctx *ctx, const bd_json *json, const char *key,
                                        const char *other);
// Refuses `key` when it is there and true, which would change what the model computes.
BD_NODISCARD bd_status bd_hf_refuse_true(bd_ctx *ctx, const bd_json *json, const char *key);

// Refuses `key` when it is there, not null, and not `only`, as JSON has it: transformers passes it
// over, and computes as that says.
BD_NODISCARD bd_status bd_hf_only_value(bd_ctx *ctx, const bd_json *json, const char *key,
                                        const char *only);

// What the folder's weights say: whether one is called `name`, and that each weight of the graph is
// there with its stored shape and no other. A folder without safetensors has nothing to say.
BD_NODISCARD bd_status bd_hf_is_stored(bd_ctx *ctx, const char *folder, const char *name,
                                       bool *out_stored);
BD_NODISCARD bd_status bd_hf_check_weights(bd_ctx *ctx, const char *folder, const bd_module *graph);
// Whether both are stored, and not as the same bytes in one shape; false where the folder has no
// safetensors. Errors: those of opening the folder.
BD_NODISCARD bd_status bd_hf_are_apart(bd_ctx *ctx, const char *folder, const char *name,
                                       const char *other, bool *out_apart);
#endif
