// What the configurations of Llama's kin are read from.
#ifndef BD_FRONTEND_HF_LLAMA_CONFIG_H
#define BD_FRONTEND_HF_LLAMA_CONFIG_H
#include "frontend/hf/hf.h"

// What families have beside the members of all, where that is not what Llama has; each list ends
// with NULL.
extern const char *const bd_hf_mixtral_keys[];
extern const char *const bd_hf_qwen3_moe_keys[];
extern const char *const bd_hf_gpt_oss_keys[];
extern const char *const bd_hf_phi3_keys[];
extern const char *const bd_hf_gemma_keys[];
extern const char *const bd_hf_olmo2_keys[];
extern const char *const bd_hf_deepseek_v2_keys[];
extern const char *const bd_hf_deepseek_v3_keys[];
extern const char *const bd_hf_gemma2_keys[];
extern const char *const bd_hf_gemma3_keys[];
extern const char *const bd_hf_granite_keys[];
extern const char *const bd_hf_smollm3_keys[];
extern const char *const bd_hf_starcoder2_keys[];
extern const char *const bd_hf_stablelm_keys[];
extern const char *const bd_hf_glm_keys[];

// Errors: BD_UNSUPPORTED where the member `key` is there and not null, which `family` does not
// have.
BD_NODISCARD bd_status bd_hf_refuse_of(bd_ctx *ctx, const bd_json *json, const char *key,
                                       const char *family);

// The window of the layers that have one: what `layer_types` says of each, else what
// `use_sliding_window` and `max_window_layers` say of some.
BD_NODISCARD bd_status bd_hf_window_of_some(bd_ctx *ctx, const bd_json *json,
                                            bd_llama_config *config);
// The window of every second layer from the first on, unless `layer_types` says which have it.
BD_NODISCARD bd_status bd_hf_window_by_turns(bd_ctx *ctx, const bd_json *json,
                                             bd_llama_config *config);
// The window of all layers where `use_sliding_window` is true; `max_window_layers` is passed over.
BD_NODISCARD bd_status bd_hf_window_of_all(bd_ctx *ctx, const bd_json *json,
                                           bd_llama_config *config);

// The window of layers that leave positions alone, where `use_sliding_window` is true, unless
// `layer_types` says which have it; `max_window_layers` is passed over.
BD_NODISCARD bd_status bd_hf_window_of_unturned(bd_ctx *ctx, const bd_json *json,
                                                bd_llama_config *config);

// The window of all layers but each `pattern`-th, which `sliding_window_pattern` says where it is
// there, unless `layer_types` names each.
BD_NODISCARD bd_status bd_hf_window_of_most(bd_ctx *ctx, const bd_json *json, int64_t pattern,
                                            bd_llama_config *config);

// What Qwen's and DeepSeek's experts are called.
extern const bd_expert_names bd_hf_projected_experts;

// How many experts there are, the member `key`, and how tokens are shared out. The loss of uneven
// load is part of the loss where the router's outputs are asked for.
BD_NODISCARD bd_status bd_hf_read_mixture(bd_ctx *ctx, const bd_json *json, const char *key,
                                          bd_llama_config *config);
BD_NODISCARD bd_status bd_hf_read_mixtral(bd_ctx *ctx, const bd_json *json,
                                          bd_llama_config *config);
// But for the window.
BD_NODISCARD bd_status bd_hf_read_normed(bd_ctx *ctx, const bd_json *json, bd_llama_config *config);
BD_NODISCARD bd_status bd_hf_read_qwen3_moe(bd_ctx *ctx, const bd_json *json,
                                            bd_llama_config *config);
BD_NODISCARD bd_status bd_hf_read_gpt_oss(bd_ctx *ctx, const bd_json *json,
                                          bd_llama_config *config);
BD_NODISCARD bd_status bd_hf_read_phi3(bd_ctx *ctx, const bd_json *json, bd_llama_config *config);
BD_NODISCARD bd_status bd_hf_read_olmo2(bd_ctx *ctx, const bd_json *json, bd_llama_config *config);
// The widths of heads, before the positions by which they are turned.
BD_NODISCARD bd_status bd_hf_read_latent(bd_ctx *ctx, const bd_json *json, bd_llama_config *config);
BD_NODISCARD bd_status bd_hf_read_deepseek_v2(bd_ctx *ctx, const bd_json *json,
                                              bd_llama_config *config);
BD_NODISCARD bd_status bd_hf_read_deepseek_v3(bd_ctx *ctx, const bd_json *json,
                                              bd_llama_config *config);
BD_NODISCARD bd_status bd_hf_read_gemma(bd_ctx *ctx, const bd_json *json, bd_llama_config *config);
BD_NODISCARD bd_status bd_hf_read_gemma2(bd_ctx *ctx, const bd_json *json, bd_llama_config *config);
BD_NODISCARD bd_status bd_hf_read_gemma3(bd_ctx *ctx, const bd_json *json, bd_llama_config *config);
BD_NODISCARD bd_status bd_hf_read_glm(bd_ctx *ctx, const bd_json *json, bd_llama_config *config);
BD_NODISCARD bd_status bd_hf_read_glm4(bd_ctx *ctx, const bd_json *json, bd_llama_config *config);
BD_NODISCARD bd_status bd_hf_read_granite(bd_ctx *ctx, const bd_json *json,
                                          bd_llama_config *config);
BD_NODISCARD bd_status bd_hf_read_smollm3(bd_ctx *ctx, const bd_json *json,
                                          bd_llama_config *config);
BD_NODISCARD bd_status bd_hf_read_starcoder2(bd_ctx *ctx, const bd_json *json,
                                             bd_llama_config *config);
BD_NODISCARD bd_status bd_hf_read_stablelm(bd_ctx *ctx, const bd_json *json,
                                           bd_llama_config *config);
#endif
