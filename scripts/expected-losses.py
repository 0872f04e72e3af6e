#!/usr/bin/env python3
"""Makes the expected numbers of tests/oracle: what PyTorch trains from the same weights and data.

    expected-losses.py [FAMILY]... [--transformers]      a folder of tests/oracle or examples, or experts; all without one

Writes, for each folder, model.safetensors or shards (initial weights, by formula), expected.txt (loss
and gradient norm per step), expected.safetensors (weights after the last step) and, of models that do
not read text.txt, samples.safetensors (by formula); for one family also the
losses under other optimizers, expected-NAME.txt. For `experts`, tests/data/experts.txt. The models are written out here with the semantics of Hugging Face transformers and computed in float64; --transformers trains
the models of that package instead, in float32, to check the ones written here.

Needs PyTorch (Debian: python3-torch); tests need only the committed results.
"""
import argparse
import json
import math
import os
import struct
import sys

if {"--help", "-h"} & set(sys.argv[1:]):
    print(__doc__)
    sys.exit()

import torch
from torch.nn import functional

STEPS, BATCH, SEED = 10, 8, 1
SAMPLES = 20 # of data that is no text
RATE, BETAS, EPSILON, DECAY, CLIP = 1e-3, (0.9, 0.95), 1e-8, 0.1, 1.0
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "oracle")
WINDOW = 0x80000002  # the domain of the windows' draws, docs/numerics.md
MASK = 0xFFFFFFFF


def philox(counter, key):
    """Philox4x32-10: four words."""
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & MASK, (a >> 32) ^ c[3] ^ k[1], a & MASK]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return c


def window(step, sample, positions):
    """Where a sample of a step starts in the text."""
    words = philox((sample, 0, step, WINDOW), (SEED, 0))
    return ((words[1] << 32 | words[0]) * positions) >> 64


def text_batches(config):
    """A function from a step to the inputs and targets that the text has for it."""
    with open(os.path.join(ROOT, "text.txt"), "rb") as file:
        text = file.read()
    length = config.get("n_positions") or config["max_position_embeddings"]

    def read(step):
        starts = [window(step, sample, len(text) - length) for sample in range(BATCH)]
        tokens = torch.tensor([list(text[at:at + length + 1]) for at in starts])
        return {"tokens": tokens[:, :-1]}, tokens[:, 1:]
    return read


def sample_batches(samples):
    """The same of samples that each stand for themselves."""
    def read(step):
        rows = [window(step, sample, len(samples["targets"])) for sample in range(BATCH)]
        batch = {name: value[rows] for name, value in samples.items()}
        return batch, batch.pop("targets").long()
    return read


def draw(number, shape, most=0):
    """Integers below `most`, or reals from -1 to 1."""
    words = [philox((e, 0, number, 1), (SEED, 0))[0] >> 8 for e in range(math.prod(shape))]
    if most:
        return torch.tensor([word % most for word in words], dtype=torch.int32).reshape(shape)
    return torch.tensor([2 * word / 2**24 - 1 for word in words], dtype=torch.float32).reshape(shape)


def bert_samples(c):
    """A third of the tokens is masked, and asked for. Half of the samples end in padding. One of the two is token 0,
    the other 1."""
    shape = [SAMPLES, c["max_position_embeddings"] - roberta_unread(c)]
    tokens, masked = 2 + draw(0, shape, c["vocab_size"] - 2), draw(1, shape, 3) == 0
    padding, token = pad(shape, 3), c["pad_token_id"]
    samples = {"tokens": tokens.masked_fill(masked, 1 - token).masked_fill(padding, token)}
    if c["type_vocab_size"] > 1:
        samples["token_types"] = draw(2, shape, c["type_vocab_size"])
    return {**samples, "targets": tokens.masked_fill(~masked | padding, -100)}


def roberta_unread(c):
    """Rows of the table of positions before that of a sample's first token."""
    return c["pad_token_id"] + 1 if c["model_type"] == "roberta" else 0


def pad(shape, number):
    """Where samples are padding: up to half of every second one."""
    length = draw(number, [shape[0], 1], shape[1] // 2) * (torch.arange(shape[0])[:, None] % 2)
    return torch.arange(shape[1]) >= shape[1] - length


def t5_samples(c):
    """The decoder reads the targets one place later, behind token 0; the last of them are none."""
    shape = [SAMPLES, c["n_positions"]]
    targets = 1 + draw(1, shape, c["vocab_size"] - 1)
    behind = torch.cat((torch.zeros(SAMPLES, 1, dtype=torch.int32), targets[:, :-1]), 1)
    none = torch.arange(shape[1]) >= shape[1] - draw(2, [SAMPLES, 1], 4)
    tokens = (1 + draw(0, shape, c["vocab_size"] - 1)).masked_fill(pad(shape, 3), 0)
    return {"tokens": tokens, "decoder_tokens": behind,
            "targets": targets.masked_fill(none, -100)}


def causal_samples(c):
    """Only what follows the first third is asked for, up to the padding of every second sample."""
    shape = [SAMPLES, c["max_position_embeddings"] + 1]
    padding = pad(shape, 3)
    tokens = (1 + draw(0, shape, c["vocab_size"] - 1)).masked_fill(padding, 0)
    none = (torch.arange(shape[1]) < shape[1] // 3) | padding
    return {"tokens": tokens[:, :-1].contiguous(), "targets": tokens.masked_fill(none, -100)[:, 1:].contiguous()}


def vit_samples(c):
    return {"inputs": draw(0, [SAMPLES, c["num_channels"], c["image_size"], c["image_size"]]),
            "targets": draw(1, [SAMPLES], len(c["id2label"]))}


def gpt2_shapes(c):
    width = c["n_embd"]
    shapes = {"wte.weight": [c["vocab_size"], width], "wpe.weight": [c["n_positions"], width],
              "ln_f.weight": [width], "ln_f.bias": [width]}
    for layer in range(c["n_layer"]):
        h = f"h.{layer}."
        for norm in "ln_1", "ln_2":
            shapes[f"{h}{norm}.weight"] = shapes[f"{h}{norm}.bias"] = [width]
        for name, rows, columns in (("attn.c_attn", width, 3 * width), ("attn.c_proj", width, width),
                                    ("mlp.c_fc", width, 4 * width), ("mlp.c_proj", 4 * width, width)):
            shapes[f"{h}{name}.weight"] = [rows, columns]
            shapes[f"{h}{name}.bias"] = [columns]
    return shapes


# What is added to the scores of experts to choose by, a buffer that is not trained.
CORRECTION = "mlp.gate.e_score_correction_bias"
# Of each family with experts: their names and those of the matrices that gate, go down and go up, and the members
# that say how many there are and how wide each is.
MIXTURES = {"mixtral": ("block_sparse_moe.", ("w1", "w2", "w3"), "num_local_experts", "intermediate_size"),
            "qwen3_moe": ("mlp.", ("gate_proj", "down_proj", "up_proj"), "num_experts", "moe_intermediate_size"),
            "gpt_oss": ("mlp.", None, "num_local_experts", "intermediate_size")}


# Of each family whose norms are not Llama's: those of what attention reads and gives, and of what the perceptron does.
NORMS = {"olmo2": (None, "post_attention", None, "post_feedforward"),
         "gemma2": ("input", "post_attention", "pre_feedforward", "post_feedforward"),
         "gemma3_text": ("input", "post_attention", "pre_feedforward", "post_feedforward"),
         "glm4": ("input", "post_self_attn", "post_attention", "post_mlp")}


def llama_norms(c):
    """Their names in a layer, without the end."""
    if c.get("use_parallel_residual"): # both halves of a layer read the same
        return "input", None, None, None
    return NORMS.get(c["model_type"], ("input", None, "post_attention", None))


# Those that turn neighbours, and store the gate and what it gates as one.
GLM = ("glm", "glm4")
# Those with layer norms, and their member for the epsilon.
LAYER_NORMS = {"starcoder2": "norm_epsilon", "stablelm": "layer_norm_eps"}


def llama_norm_shapes(c, name):
    width = c["hidden_size"]
    return norm_shapes(name, width) if c["model_type"] in LAYER_NORMS else {name + ".weight": [width]}


def has_bias(c, name):
    """Whether the matrix of a layer has a bias."""
    of_queries = name[-6:] in ("q_proj", "k_proj", "v_proj")
    if c["model_type"] == "gpt_oss":
        return of_queries or name[-6:] == "o_proj"
    if c["model_type"] in GLM:
        return of_queries and c["attention_bias"]
    return c.get("use_bias") or of_queries and (c["model_type"] == "qwen2" or c.get("use_qkv_bias"))


def llama_shapes(c):
    width, inner, head = c["hidden_size"], c["intermediate_size"], llama_head_width(c)
    queries, keys = c["num_attention_heads"] * head, c["num_key_value_heads"] * head
    shapes = {"model.embed_tokens.weight": [c["vocab_size"], width], **llama_norm_shapes(c, "model.norm")}
    if not c["tie_word_embeddings"]:
        shapes["lm_head.weight"] = [c["vocab_size"], width]
    for layer in range(c["num_hidden_layers"]):
        h = f"model.layers.{layer}."
        for name in llama_norms(c):
            shapes |= llama_norm_shapes(c, f"{h}{name}_layernorm") if name else {}
        if c["model_type"] in ("qwen3", "qwen3_moe", "gemma3_text"):
            shapes[h + "self_attn.q_norm.weight"] = shapes[h + "self_attn.k_norm.weight"] = [head]
        if c.get("qk_layernorm"):
            for letter, count in ("q", c["num_attention_heads"]), ("k", c["num_key_value_heads"]):
                shapes |= {f"{h}self_attn.{letter}_layernorm.norms.{number}.weight": [head] for number in range(count)}
        if c["model_type"] == "olmo2":
            shapes |= {h + "self_attn.q_norm.weight": [queries], h + "self_attn.k_norm.weight": [keys]}
        matrices = [("self_attn.o_proj", width, queries)]
        if c["model_type"] == "phi3":
            matrices.append(("self_attn.qkv_proj", queries + 2 * keys, width))
        else:
            matrices += [("self_attn.q_proj", queries, width), ("self_attn.k_proj", keys, width),
                         ("self_attn.v_proj", keys, width)]
        if c["model_type"] == "gpt_oss":
            shapes |= gpt_oss_shapes(c, h)
        elif c["model_type"] in MIXTURES and layer not in c.get("mlp_only_layers", []):
            moe, parts, count, own = MIXTURES[c["model_type"]]
            matrices.append((moe + "gate", c[count], width))
            for expert in range(c[count]):
                gate, down, up = (f"{moe}experts.{expert}.{part}" for part in parts)
                matrices += [(gate, c[own], width), (down, width, c[own]), (up, c[own], width)]
        elif c["model_type"] == "starcoder2":
            matrices += [("mlp.c_fc", inner, width), ("mlp.c_proj", width, inner)]
        elif c["model_type"] == "phi3" or c["model_type"] in GLM:
            matrices += [("mlp.gate_up_proj", 2 * inner, width), ("mlp.down_proj", width, inner)]
        else:
            matrices += [("mlp.gate_proj", inner, width), ("mlp.up_proj", inner, width),
                         ("mlp.down_proj", width, inner)]
        for name, rows, columns in matrices:
            shapes[f"{h}{name}.weight"] = [rows, columns]
            if has_bias(c, name):
                shapes[f"{h}{name}.bias"] = [rows]
    return shapes


def deepseek_shapes(c):
    width, heads = c["hidden_size"], c["num_attention_heads"]
    turned, plain, own, rank = (c[name] for name in
                                ("qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim", "kv_lora_rank"))
    shapes = {"model.embed_tokens.weight": [c["vocab_size"], width], "lm_head.weight": [c["vocab_size"], width],
              "model.norm.weight": [width]}
    for layer in range(c["num_hidden_layers"]):
        h, biased = f"model.layers.{layer}.", c["attention_bias"]
        a = h + "self_attn."
        shapes[h + "input_layernorm.weight"] = shapes[h + "post_attention_layernorm.weight"] = [width]
        latents = {"kv_a_proj_with_mqa": [rank + turned, width], "o_proj": [width, heads * own]}
        if c["q_lora_rank"]:
            latents["q_a_proj"] = [c["q_lora_rank"], width]
            shapes |= {a + "q_a_layernorm.weight": [c["q_lora_rank"]],
                       a + "q_b_proj.weight": [heads * (plain + turned), c["q_lora_rank"]]}
        else:
            shapes[a + "q_proj.weight"] = [heads * (plain + turned), width]
        shapes |= {a + "kv_a_layernorm.weight": [rank], a + "kv_b_proj.weight": [heads * (plain + own), rank]}
        for name, shape in latents.items():
            shapes[f"{a}{name}.weight"] = shape
            if biased:
                shapes[f"{a}{name}.bias"] = shape[:1]
        perceptrons = {"mlp.": c["intermediate_size"]}
        if layer >= c["first_k_dense_replace"]:
            inner = c["moe_intermediate_size"]
            perceptrons = {f"mlp.experts.{expert}.": inner for expert in range(c["n_routed_experts"])}
            perceptrons["mlp.shared_experts."] = inner * c["n_shared_experts"]
            shapes[h + "mlp.gate.weight"] = [c["n_routed_experts"], width]
            if c["model_type"] == "deepseek_v3":
                shapes[h + CORRECTION] = [c["n_routed_experts"]]
        for name, inner in perceptrons.items():
            shapes |= {f"{h}{name}gate_proj.weight": [inner, width], f"{h}{name}up_proj.weight": [inner, width],
                       f"{h}{name}down_proj.weight": [width, inner]}
    return shapes


def gpt_oss_shapes(c, h):
    """Of a layer, what others do not have."""
    width, inner, count, e = c["hidden_size"], c["intermediate_size"], c["num_local_experts"], h + "mlp.experts."
    shapes = {h + "self_attn.sinks": [c["num_attention_heads"]],
              e + "gate_up_proj": [count, width, 2 * inner], e + "gate_up_proj_bias": [count, 2 * inner],
              e + "down_proj": [count, inner, width], e + "down_proj_bias": [count, width]}
    return shapes | dense_shapes(h + "mlp.router", count, width)


def neox_shapes(c):
    width, inner = c["hidden_size"], c["intermediate_size"]
    shapes = {"gpt_neox.embed_in.weight": [c["vocab_size"], width], "embed_out.weight": [c["vocab_size"], width]}
    for layer in range(c["num_hidden_layers"]):
        h = f"gpt_neox.layers.{layer}."
        shapes |= norm_shapes(h + "input_layernorm", width) | norm_shapes(h + "post_attention_layernorm", width)
        shapes |= dense_shapes(h + "attention.query_key_value", 3 * width, width)
        shapes |= dense_shapes(h + "attention.dense", width, width)
        shapes |= dense_shapes(h + "mlp.dense_h_to_4h", inner, width) | dense_shapes(h + "mlp.dense_4h_to_h", width, inner)
    return shapes | norm_shapes("gpt_neox.final_layer_norm", width)


def opt_shapes(c):
    width, rows, d = c["hidden_size"], c["word_embed_proj_dim"], "model.decoder."
    shapes = {d + "embed_tokens.weight": [c["vocab_size"], rows],
              d + "embed_positions.weight": [c["max_position_embeddings"] + 2, width]}
    if rows != width:
        shapes |= {d + "project_in.weight": [width, rows], d + "project_out.weight": [rows, width]}
    for layer in range(c["num_hidden_layers"]):
        h = f"{d}layers.{layer}."
        shapes |= norm_shapes(h + "self_attn_layer_norm", width) | norm_shapes(h + "final_layer_norm", width)
        for name in "q_proj", "k_proj", "v_proj", "out_proj":
            shapes |= dense_shapes(f"{h}self_attn.{name}", width, width)
        shapes |= dense_shapes(h + "fc1", c["ffn_dim"], width) | dense_shapes(h + "fc2", width, c["ffn_dim"])
    return shapes | (norm_shapes(d + "final_layer_norm", width) if c["do_layer_norm_before"] else {})


def dense_shapes(name, rows, columns):
    return {name + ".weight": [rows, columns], name + ".bias": [rows]}


def norm_shapes(name, width):
    return {name + ".weight": [width], name + ".bias": [width]}


def encoder_shapes(c, block, attention, norms):
    width, inner, shapes = c["hidden_size"], c["intermediate_size"], {}
    for layer in range(c["num_hidden_layers"]):
        h = f"{block}.{layer}."
        for name in "query", "key", "value":
            shapes |= dense_shapes(f"{h}{attention}.{name}", width, width)
        shapes |= dense_shapes(h + "attention.output.dense", width, width)
        shapes |= dense_shapes(h + "intermediate.dense", inner, width)
        shapes |= dense_shapes(h + "output.dense", width, inner)
        for name in norms:
            shapes |= norm_shapes(h + name, width)
    return shapes


# DistilBERT's names, and BERT's for the same.
DISTILLED = (("transformer.layer", "encoder.layer"), ("attention.q_lin", "attention.self.query"),
             ("attention.k_lin", "attention.self.key"), ("attention.v_lin", "attention.self.value"),
             ("attention.out_lin", "attention.output.dense"), ("sa_layer_norm", "attention.output.LayerNorm"),
             ("ffn.lin1", "intermediate.dense"), ("ffn.lin2", "output.dense"),
             ("output_layer_norm", "output.LayerNorm"), ("distilbert.", "bert."),
             ("vocab_transform", "cls.predictions.transform.dense"),
             ("vocab_layer_norm", "cls.predictions.transform.LayerNorm"), ("vocab_projector.", "cls.predictions."))
TYPES = "bert.embeddings.token_type_embeddings.weight"


def undistilled(c):
    """The configuration of the BERT that DistilBERT is without types of tokens."""
    return {**c, "model_type": "bert", "hidden_size": c["dim"], "intermediate_size": c["hidden_dim"],
            "num_hidden_layers": c["n_layers"], "num_attention_heads": c["n_heads"], "hidden_act": c["activation"],
            "type_vocab_size": 1, "layer_norm_eps": 1e-12}


def distilbert_name(name):
    for own, other in DISTILLED:
        name = name.replace(other, own)
    return name


def distilbert_shapes(c):
    return {distilbert_name(name): shape for name, shape in bert_shapes(undistilled(c)).items() if name != TYPES}


def distilbert_samples(c):
    return bert_samples(undistilled(c))


# Of each family of BERT's kind, where the body's names and the bias of the output matrix begin, and the matrix and the
# norm before that.
MASKED = {"bert": ("bert.", "cls.predictions.", "cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm"),
          "roberta": ("roberta.", "lm_head.", "lm_head.dense", "lm_head.layer_norm")}


def bert_shapes(c):
    body, cls, transform, norm = MASKED[c["model_type"]]
    width, e = c["hidden_size"], body + "embeddings."
    shapes = encoder_shapes(c, body + "encoder.layer", "attention.self",
                            ("attention.output.LayerNorm", "output.LayerNorm"))
    shapes |= {e + "word_embeddings.weight": [c["vocab_size"], width],
               e + "position_embeddings.weight": [c["max_position_embeddings"], width],
               e + "token_type_embeddings.weight": [c["type_vocab_size"], width],
               cls + "bias": [c["vocab_size"]]}
    return (shapes | norm_shapes(e + "LayerNorm", width) | norm_shapes(norm, width) |
            dense_shapes(transform, width, width))


def vit_shapes(c):
    width, e, side = c["hidden_size"], "vit.embeddings.", c["image_size"] // c["patch_size"]
    shapes = encoder_shapes(c, "vit.encoder.layer", "attention.attention", ("layernorm_before", "layernorm_after"))
    shapes |= {e + "cls_token": [1, 1, width], e + "position_embeddings": [1, side * side + 1, width],
               e + "patch_embeddings.projection.weight": [width, c["num_channels"], c["patch_size"], c["patch_size"]],
               e + "patch_embeddings.projection.bias": [width]}
    return shapes | norm_shapes("vit.layernorm", width) | dense_shapes("classifier", len(c["id2label"]), width)


def t5_shapes(c):
    width, inner, heads = c["d_model"], c["d_ff"], c["num_heads"] * c["d_kv"]
    shapes = {"shared.weight": [c["vocab_size"], width]}
    for side, layers, parts in (("encoder", c["num_layers"], ["SelfAttention"]),
                                ("decoder", c["num_decoder_layers"], ["SelfAttention", "EncDecAttention"])):
        shapes[f"{side}.final_layer_norm.weight"] = [width]
        shapes[f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"] = [
            c["relative_attention_num_buckets"], c["num_heads"]]
        for layer in range(layers):
            h = f"{side}.block.{layer}.layer."
            for number, part in enumerate(parts + ["DenseReluDense"]):
                shapes[f"{h}{number}.layer_norm.weight"] = [width]
                if part == "DenseReluDense":
                    shapes |= {f"{h}{number}.{part}.{name}.weight": [inner, width] for name in t5_inner(c)}
                    shapes[f"{h}{number}.{part}.wo.weight"] = [width, inner]
                else:
                    shapes |= {f"{h}{number}.{part}.{name}.weight": [heads, width] for name in "qkv"}
                    shapes[f"{h}{number}.{part}.o.weight"] = [width, heads]
    # transformers 5 calls all of them tied, and stores the output matrix of those that are not.
    if not c["tie_word_embeddings"] or not c.get("scale_decoder_outputs", True):
        shapes["lm_head.weight"] = [c["vocab_size"], width]
    return shapes


def t5_inner(c):
    return ["wi_0", "wi_1"] if c["feed_forward_proj"].startswith("gated-") else ["wi"]


def initial_weights(shapes, dtype, gains=1.0):
    """Uniform: matrices around 0, gains around 1 or `gains`, biases around 0, none of them constant; some that a
    clamp is to cut, or that are to weigh as much as scores, further from 0."""
    weights = {}
    for number, (name, shape) in enumerate(sorted(shapes.items())):
        gain = len(shape) == 1 and name.endswith("weight")
        scale, middle = (0.15, 0.0) if len(shape) >= 2 else (0.1, gains if gain else 0.0)
        scale = {"gate_up_proj_bias": 9.0, "sinks": 2.0}.get(name.rsplit(".", 1)[-1], scale)
        draws = [philox((e, 0, number, 0), (SEED, 0))[0] >> 8 for e in range(math.prod(shape))]
        values = torch.tensor([middle + scale * (2 * u / 2**24 - 1) for u in draws], dtype=torch.float32)
        weights[name] = values.reshape(shape).to(dtype)
    return weights


def attend(q, k, v, causal=True, padding=None, window=None, scale=None, softcap=None, sinks=None):
    """Attention of [batch, head, token, channel]; no one reads tokens that are padding, or as far back as the window.
    A head's sink is one more score of each row."""
    length = q.shape[2]
    scores = cap(q @ k.transpose(2, 3) * (scale or q.shape[3] ** -0.5), softcap)
    hidden = torch.ones(length, length, dtype=torch.bool).triu(1) & causal
    if window is not None:
        hidden = hidden | torch.ones(length, length, dtype=torch.bool).tril(-window)
    if padding is not None:
        hidden = hidden | padding[:, None, None]
    scores = scores.masked_fill(hidden, -math.inf)
    if sinks is None:
        return torch.softmax(scores, 3) @ v
    sinks = sinks[None, :, None, None].expand(*scores.shape[:3], 1)
    return torch.softmax(torch.cat((scores, sinks), 3), 3)[..., :-1] @ v


def split_heads(x, heads):
    return x.reshape(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


def join_heads(x):
    return x.transpose(1, 2).flatten(2)


def gelu_new(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gpt2_logits(c, w, tokens):
    width = c["n_embd"]

    def norm(x, name):
        return functional.layer_norm(x, (width,), w[name + ".weight"], w[name + ".bias"],
                                     c["layer_norm_epsilon"])

    def project(x, name):
        return x @ w[name + ".weight"] + w[name + ".bias"]

    x = w["wte.weight"][tokens] + w["wpe.weight"][:tokens.shape[1]]
    for layer in range(c["n_layer"]):
        h = f"h.{layer}."
        q, k, v = (split_heads(part, c["n_head"])
                   for part in project(norm(x, h + "ln_1"), h + "attn.c_attn").split(width, 2))
        x = x + project(join_heads(attend(q, k, v)), h + "attn.c_proj")
        x = x + project(gelu_new(project(norm(x, h + "ln_2"), h + "mlp.c_fc")), h + "mlp.c_proj")
    return norm(x, "ln_f") @ w["wte.weight"].T


def llama_head_width(c):
    return c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]


def split_fused(c, w):
    """The weights with those that others are parts of apart."""
    head, w = llama_head_width(c), dict(w)
    queries, keys = c["num_attention_heads"] * head, c["num_key_value_heads"] * head
    for layer in range(c["num_hidden_layers"]):
        h = f"model.layers.{layer}."
        if c["model_type"] == "phi3":
            w |= zip([f"{h}self_attn.{letter}_proj.weight" for letter in "qkv"],
                     w[h + "self_attn.qkv_proj.weight"].split((queries, keys, keys)))
        w |= zip([f"{h}mlp.{name}_proj.weight" for name in ("gate", "up")], w[h + "mlp.gate_up_proj.weight"].chunk(2))
    return w


def yarn(scaling, theta, half):
    """By how much each pair is slowed, and what YaRN (Peng et al. 2023) multiplies what is turned with."""
    def pair(turns):
        return half * math.log(scaling["original_max_position_embeddings"] / (turns * 2 * math.pi)) / math.log(theta)
    low, high = max(pair(scaling["beta_fast"]), 0), min(pair(scaling["beta_slow"]), 2 * half - 1)
    slowed = ((torch.arange(half).double() - low) / (high - low)).clamp(0, 1)
    return slowed / scaling["factor"] + 1 - slowed, 0.1 * math.log(scaling["factor"]) + 1


def longrope(c, scaling, length):
    """By how much each pair is slowed, and what LongRoPE (Ding et al. 2024) multiplies what is turned with."""
    first = c["original_max_position_embeddings"]
    factor = c["max_position_embeddings"] / first
    slower = scaling["long_factor" if length > first else "short_factor"]
    return 1 / torch.tensor(slower).double(), math.sqrt(1 + math.log(factor) / math.log(first))


def rotate(x, theta, share=1.0, scaling=None, c=None):
    """Rotary positions, divided by a factor or slowed as YaRN or LongRoPE does, channel i paired with i + half; of the
    first channels, a share of them."""
    turned = int(x.shape[3] * share)
    if turned < x.shape[3]:
        return torch.cat((rotate(x[..., :turned], theta, 1.0, scaling, c), x[..., turned:]), 3)
    half = x.shape[3] // 2
    frequency = theta ** (-torch.arange(half, dtype=x.dtype) / half)
    if scaling and scaling["rope_type"] == "yarn":
        slower, amplitude = yarn(scaling, theta, half)
        x, frequency = amplitude * x, frequency * slower
    elif scaling and scaling["rope_type"] == "longrope":
        slower, amplitude = longrope(c, scaling, x.shape[2])
        x, frequency = amplitude * x, frequency * slower
    elif scaling:
        frequency = frequency / scaling["factor"]
    angle = torch.arange(x.shape[2], dtype=x.dtype)[:, None] * frequency
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), 3)


def rotate_neighbours(x, theta, share):
    """Rotary positions of the first channels, a share of them, each paired with its neighbour."""
    turned = int(x.shape[3] * share)
    frequency = theta ** (-torch.arange(0, turned, 2, dtype=x.dtype) / turned)
    angle = torch.arange(x.shape[2], dtype=x.dtype)[:, None] * frequency
    a, b = x[..., 0:turned:2], x[..., 1:turned:2]
    y = torch.stack((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), 4).flatten(3)
    return torch.cat((y, x[..., turned:]), 3)


class Experts:
    """The perceptrons of a mixture and the load of each, over all layers."""
    def __init__(self, c, w):
        self.c, self.w, self.shares, self.chosen = c, w, [], []
        _, self.parts, count, _ = MIXTURES[c.get("model_type", "mixtral")]
        self.count, self.of_chosen = c[count], c.get("norm_topk_prob", True)

    def perceive(self, x, h):
        count = self.count
        flat = x.reshape(-1, self.c["hidden_size"])
        share = torch.softmax(flat @ self.w[h + "gate.weight"].T, 1)
        best, which = torch.topk(share, self.c["num_experts_per_tok"], 1)
        mark = functional.one_hot(which, count)
        if self.of_chosen:
            best = best / best.sum(1, keepdim=True)
        weight = (mark * best[:, :, None]).sum(1)
        self.shares.append(share)
        self.chosen.append(mark)
        y = 0
        for expert in range(count):
            gate, down, up = (self.w[f"{h}experts.{expert}.{part}.weight"].T for part in self.parts)
            y = y + weight[:, expert, None] * ((functional.silu(flat @ gate) * (flat @ up)) @ down)
        return y.reshape(x.shape)

    def perceive_clamped(self, x, h):
        """gpt-oss: all experts in one tensor, columns of gate and up in turn; the loss of uneven load takes the
        softmax of what experts weigh."""
        w, e = self.w, h + "experts."
        flat = x.reshape(-1, self.c["hidden_size"])
        best, which = torch.topk(flat @ w[h + "router.weight"].T + w[h + "router.bias"],
                                 self.c["num_experts_per_tok"], 1)
        mark = functional.one_hot(which, self.count)
        weight = (mark * torch.softmax(best, 1)[:, :, None]).sum(1)
        self.shares.append(torch.softmax(weight, 1))
        self.chosen.append(mark)
        y = 0
        for expert in range(self.count):
            both = flat @ w[e + "gate_up_proj"][expert] + w[e + "gate_up_proj_bias"][expert]
            gate, up = both[:, ::2].clamp(max=7.0), both[:, 1::2].clamp(-7.0, 7.0)
            gated = (up + 1) * gate * torch.sigmoid(1.702 * gate)
            y = y + weight[:, expert, None] * (gated @ w[e + "down_proj"][expert] + w[e + "down_proj_bias"][expert])
        return y.reshape(x.shape)

    def balance(self):
        if not self.c["output_router_logits"]:
            return 0
        chosen, share = torch.cat(self.chosen).double().mean(0), torch.cat(self.shares).mean(0)
        return self.c["router_aux_loss_coef"] * self.count * (chosen * share).sum()


def llama_window(c, layer):
    """How many tokens up to its own one sees; None: all."""
    if c["model_type"].startswith("qwen") or c["model_type"] == "gpt_oss":
        slides = c.get("use_sliding_window") and layer >= c.get("max_window_layers", 28)
        if "layer_types" in c:
            slides = c["layer_types"][layer] == "sliding_attention"
        return c["sliding_window"] if slides else None
    if c["model_type"] == "smollm3":
        return c["sliding_window"] if c["use_sliding_window"] and not c["no_rope_layers"][layer] else None
    if c["model_type"] in PATTERNS:
        slides = (layer + 1) % c.get("sliding_window_pattern", PATTERNS[c["model_type"]])
        return c["sliding_window"] if slides else None
    return c.get("sliding_window")


# Of which layers each that has this number has no window.
PATTERNS = {"gemma2": 2, "gemma3_text": 6}


def llama_turn(c, layer):
    """The base of rotary positions, and how they are scaled."""
    if "rope_parameters" in c:
        turns = c["rope_parameters"]["sliding_attention" if llama_window(c, layer) else "full_attention"]
        return turns["rope_theta"], turns
    return c["rope_theta"], c.get("rope_scaling")


def cap(x, most):
    return most * torch.tanh(x / most) if most else x


def llama_logits(c, w, tokens):
    heads, groups = c["num_attention_heads"], c["num_key_value_heads"]
    w = split_fused(c, w) if c["model_type"] in ("phi3", *GLM) else w

    def norm(x, name):
        if c["model_type"] in LAYER_NORMS:
            return functional.layer_norm(x, (c["hidden_size"],), w[name + ".weight"], w[name + ".bias"],
                                         c[LAYER_NORMS[c["model_type"]]])
        gain = w[name + ".weight"] + (c["model_type"] in BESIDE_ONE)
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + c["rms_norm_eps"]) * gain

    def project(x, name):
        y = x @ w[name + ".weight"].T
        return y + w[name + ".bias"] if name + ".bias" in w else y

    attention_in, attention_out, perceptron_in, perceptron_out = llama_norms(c)
    whole = c["model_type"] == "olmo2"

    def normed(x, h, name):
        return norm(x, f"{h}{name}_layernorm") if name else x

    def turned(x, h, letter, count, layer):
        y = project(x, f"{h}{letter}_proj")
        y = split_heads(norm(y, f"{h}{letter}_norm") if whole else y, count)
        y = norm(y, f"{h}{letter}_norm") if f"{h}{letter}_norm.weight" in w and not whole else y
        if c.get("qk_layernorm"):
            gains = [w[f"{h}{letter}_layernorm.norms.{number}.weight"] for number in range(count)]
            y = functional.layer_norm(y, y.shape[3:], eps=c["layer_norm_eps"]) * torch.stack(gains)[:, None]
        if "no_rope_layers" in c and not c["no_rope_layers"][layer]:
            return y
        base, scaling = llama_turn(c, layer)
        if c["model_type"] in GLM:
            return rotate_neighbours(y, base, c["partial_rotary_factor"])
        return rotate(y, base, c.get("partial_rotary_factor", 1.0), scaling, c)

    experts = Experts(c, w) if c["model_type"] in MIXTURES else None
    gemma = c["model_type"].startswith("gemma")
    activation = gelu_new if gemma else functional.silu
    scale = c["query_pre_attn_scalar"] ** -0.5 if "query_pre_attn_scalar" in c else c.get("attention_multiplier")
    added = c.get("residual_multiplier", 1)
    x = w["model.embed_tokens.weight"][tokens.long()]
    x = x * (c["hidden_size"] ** 0.5 if gemma else c.get("embedding_multiplier", 1))
    for layer in range(c["num_hidden_layers"]):
        h = f"model.layers.{layer}."
        n = normed(x, h, attention_in)
        q, k = (turned(n, h + "self_attn.", letter, count, layer) for letter, count in (("q", heads), ("k", groups)))
        v = split_heads(project(n, h + "self_attn.v_proj"), groups)
        k, v = (part.repeat_interleave(heads // groups, 1) for part in (k, v))
        y = attend(q, k, v, window=llama_window(c, layer), scale=scale, softcap=c.get("attn_logit_softcapping"),
                   sinks=w.get(h + "self_attn.sinks"))
        x = x + added * normed(project(join_heads(y), h + "self_attn.o_proj"), h, attention_out)
        n = n if c.get("use_parallel_residual") else normed(x, h, perceptron_in)
        if experts and layer not in c.get("mlp_only_layers", []):
            perceive = experts.perceive if experts.parts else experts.perceive_clamped
            x = x + perceive(n, h + MIXTURES[c["model_type"]][0])
            continue
        if c["model_type"] == "starcoder2":
            x = x + project(gelu_new(project(n, h + "mlp.c_fc")), h + "mlp.c_proj")
            continue
        gated = activation(project(n, h + "mlp.gate_proj")) * project(n, h + "mlp.up_proj")
        x = x + added * normed(project(gated, h + "mlp.down_proj"), h, perceptron_out)
    logits = project(norm(x, "model.norm"), "model.embed_tokens" if c["tie_word_embeddings"] else "lm_head")
    logits = cap(logits / c.get("logits_scaling", 1), c.get("final_logit_softcapping"))
    return (logits, experts.balance()) if experts else logits


def turned_frequencies(c, width):
    """Frequencies of the pairs of a head, and what turned channels are multiplied by."""
    theta, s = c["rope_theta"], c["rope_scaling"]
    pair = torch.arange(width // 2, dtype=torch.float64)
    plain = theta ** (-2 * pair / width)
    if not s:
        return plain, 1.0

    def place(turns):
        return width * math.log(s["original_max_position_embeddings"] / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low, high = max(math.floor(place(s["beta_fast"])), 0), min(math.ceil(place(s["beta_slow"])), width - 1)
    ramp = ((pair - low) / (high - low)).clamp(0, 1)
    return plain / s["factor"] * ramp + plain * (1 - ramp), magnitude(s, s["mscale"]) / magnitude(s, s["mscale_all_dim"])


def magnitude(s, share):
    return 0.1 * share * math.log(s["factor"]) + 1


def turn_pairs(c, x):
    """Rotary positions, each channel paired with its neighbour."""
    frequency, size = turned_frequencies(c, x.shape[3])
    angle = torch.arange(x.shape[2], dtype=torch.float64)[:, None] * frequency
    a, b = x[..., 0::2], x[..., 1::2]
    return size * torch.stack((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), 4).flatten(3)


def choose_experts(c, logits, correction):
    """Of rows of logits: the weight of each expert, 0 of those that are not chosen."""
    third, groups = correction is not None, c["n_group"]
    share = logits.sigmoid() if third else logits.softmax(1)
    rates = (share + correction if third else share).reshape(len(logits), groups, -1)
    best = rates.topk(2, 2)[0].sum(2) if third else rates.max(2)[0]
    mark = functional.one_hot(best.topk(c["topk_group"], 1)[1], groups).sum(1)
    which = (rates * mark[:, :, None]).flatten(1).topk(c["num_experts_per_tok"], 1)[1]
    weight = share * functional.one_hot(which, c["n_routed_experts"]).sum(1)
    if third and c["norm_topk_prob"]:
        weight = weight / (weight.sum(1, keepdim=True) + 1e-20)
    return weight * c["routed_scaling_factor"]


def deepseek_logits(c, w, tokens):
    heads, plain, rank = c["num_attention_heads"], c["qk_nope_head_dim"], c["kv_lora_rank"]

    def norm(x, name, epsilon=1e-6):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + epsilon) * w[name + ".weight"]

    def project(x, name):
        y = x @ w[name + ".weight"].T
        return y + w[name + ".bias"] if name + ".bias" in w else y

    def perceive(x, name):
        return project(functional.silu(project(x, name + "gate_proj")) * project(x, name + "up_proj"), name + "down_proj")

    def attended(x, a):
        if c["q_lora_rank"]:
            q = project(norm(project(x, a + "q_a_proj"), a + "q_a_layernorm"), a + "q_b_proj")
        else:
            q = project(x, a + "q_proj")
        q = split_heads(q, heads)
        latent, turned = project(x, a + "kv_a_proj_with_mqa").split((rank, c["qk_rope_head_dim"]), 2)
        k, v = split_heads(project(norm(latent, a + "kv_a_layernorm"), a + "kv_b_proj"), heads).split(
            (plain, c["v_head_dim"]), 3)
        turned = turn_pairs(c, turned[:, None]).expand(-1, heads, -1, -1)
        q = torch.cat((q[..., :plain], turn_pairs(c, q[..., plain:])), 3)
        if c["rope_scaling"]:
            q = q * magnitude(c["rope_scaling"], c["rope_scaling"]["mscale_all_dim"])**2
        return project(join_heads(attend(q, torch.cat((k, turned), 3), v)), a + "o_proj")

    def mixed(x, h):
        flat = x.flatten(0, 1)
        weight = choose_experts(c, flat @ w[h + "mlp.gate.weight"].T, w.get(h + CORRECTION))
        y = sum(weight[:, e, None] * perceive(flat, f"{h}mlp.experts.{e}.") for e in range(c["n_routed_experts"]))
        return y.reshape(x.shape) + perceive(x, h + "mlp.shared_experts.")

    x = w["model.embed_tokens.weight"][tokens.long()]
    for layer in range(c["num_hidden_layers"]):
        h = f"model.layers.{layer}."
        x = x + attended(norm(x, h + "input_layernorm", c["rms_norm_eps"]), h + "self_attn.")
        n = norm(x, h + "post_attention_layernorm", c["rms_norm_eps"])
        x = x + (mixed(n, h) if layer >= c["first_k_dense_replace"] else perceive(n, h + "mlp."))
    return project(norm(x, "model.norm", c["rms_norm_eps"]), "lm_head")


def neox_logits(c, w, tokens):
    width, heads = c["hidden_size"], c["num_attention_heads"]

    def norm(x, name):
        return functional.layer_norm(x, (width,), w[name + ".weight"], w[name + ".bias"], c["layer_norm_eps"])

    def dense(x, name):
        return x @ w[name + ".weight"].T + w[name + ".bias"]

    x = w["gpt_neox.embed_in.weight"][tokens.long()]
    for layer in range(c["num_hidden_layers"]):
        h = f"gpt_neox.layers.{layer}."
        q, k, v = split_heads(dense(norm(x, h + "input_layernorm"), h + "attention.query_key_value"), heads).chunk(3, 3)
        q, k = (rotate(part, c["rotary_emb_base"], c["rotary_pct"]) for part in (q, k))
        middle = x + dense(join_heads(attend(q, k, v)), h + "attention.dense")
        n = norm(x if c["use_parallel_residual"] else middle, h + "post_attention_layernorm")
        x = middle + dense(functional.gelu(dense(n, h + "mlp.dense_h_to_4h")), h + "mlp.dense_4h_to_h")
    return norm(x, "gpt_neox.final_layer_norm") @ w["embed_out.weight"].T


def opt_logits(c, w, tokens):
    heads, first, d = c["num_attention_heads"], c["do_layer_norm_before"], "model.decoder."

    def norm(x, name):
        return functional.layer_norm(x, (c["hidden_size"],), w[name + ".weight"], w[name + ".bias"])

    def dense(x, name):
        return x @ w[name + ".weight"].T + w[name + ".bias"]

    def add(x, name, half):
        y = x + half(norm(x, name) if first else x)
        return y if first else norm(y, name)

    def attended(x, a):
        q, k, v = (split_heads(dense(x, f"{a}{letter}_proj"), heads) for letter in "qkv")
        return dense(join_heads(attend(q, k, v)), a + "out_proj")

    x = w[d + "embed_tokens.weight"][tokens.long()]
    if d + "project_in.weight" in w:
        x = x @ w[d + "project_in.weight"].T
    x = x + w[d + "embed_positions.weight"][2:2 + tokens.shape[1]]
    for layer in range(c["num_hidden_layers"]):
        h = f"{d}layers.{layer}."
        x = add(x, h + "self_attn_layer_norm", lambda n: attended(n, h + "self_attn."))
        x = add(x, h + "final_layer_norm", lambda n: dense(functional.relu(dense(n, h + "fc1")), h + "fc2"))
    x = norm(x, d + "final_layer_norm") if first else x
    if d + "project_out.weight" in w:
        x = x @ w[d + "project_out.weight"].T
    return x @ w[d + "embed_tokens.weight"].T


class Encoder:
    """Layers of BERT, RoBERTa and ViT, with the same names."""
    def __init__(self, c, w, attention):
        self.c, self.w, self.attention = c, w, attention

    def dense(self, x, name):
        return x @ self.w[name + ".weight"].T + self.w[name + ".bias"]

    def norm(self, x, name):
        return functional.layer_norm(x, (self.c["hidden_size"],), self.w[name + ".weight"],
                                     self.w[name + ".bias"], self.c["layer_norm_eps"])

    def attend(self, x, h, padding=None):
        q, k, v = (split_heads(self.dense(x, f"{h}{self.attention}.{name}"), self.c["num_attention_heads"])
                   for name in ("query", "key", "value"))
        return self.dense(join_heads(attend(q, k, v, False, padding)), h + "attention.output.dense")

    def perceive(self, x, h):
        activation = getattr(functional, self.c["hidden_act"])
        return self.dense(activation(self.dense(x, h + "intermediate.dense")), h + "output.dense")


def bert_logits(c, w, tokens, token_types=None):
    body, cls, transform, norm = MASKED[c["model_type"]]
    net, e, first = Encoder(c, w, "attention.self"), body + "embeddings.", roberta_unread(c)
    types = torch.zeros_like(tokens) if token_types is None else token_types
    x = (w[e + "word_embeddings.weight"][tokens.long()] + w[e + "token_type_embeddings.weight"][types.long()] +
         w[e + "position_embeddings.weight"][first:first + tokens.shape[1]])
    x = net.norm(x, e + "LayerNorm")
    for layer in range(c["num_hidden_layers"]):
        h = f"{body}encoder.layer.{layer}."
        x = net.norm(x + net.attend(x, h, tokens == c["pad_token_id"]), h + "attention.output.LayerNorm")
        x = net.norm(x + net.perceive(x, h), h + "output.LayerNorm")
    x = net.norm(functional.gelu(net.dense(x, transform)), norm)
    return x @ w[e + "word_embeddings.weight"].T + w[cls + "bias"]


def distilbert_logits(c, w, tokens):
    bert = undistilled(c)
    w = {name: w[distilbert_name(name)] for name in bert_shapes(bert) if name != TYPES}
    return bert_logits(bert, {**w, TYPES: torch.zeros(1, c["dim"]).double()}, tokens)


def vit_logits(c, w, inputs):
    net, e = Encoder(c, w, "attention.attention"), "vit.embeddings."
    x = functional.conv2d(inputs.to(w[e + "cls_token"].dtype), w[e + "patch_embeddings.projection.weight"],
                          w[e + "patch_embeddings.projection.bias"], stride=c["patch_size"])
    x = x.flatten(2).transpose(1, 2)
    x = torch.cat((w[e + "cls_token"].expand(len(x), -1, -1), x), 1) + w[e + "position_embeddings"]
    for layer in range(c["num_hidden_layers"]):
        h = f"vit.encoder.layer.{layer}."
        x = x + net.attend(net.norm(x, h + "layernorm_before"), h)
        x = x + net.perceive(net.norm(x, h + "layernorm_after"), h)
    return net.dense(net.norm(x, "vit.layernorm")[:, 0], "classifier")


def t5_bucket(c, distance, both):
    """Of a tensor of distances, how far a key stands behind its query: buckets of the table."""
    count, most = c["relative_attention_num_buckets"], c["relative_attention_max_distance"]
    ahead = 0
    if both:
        count //= 2
        ahead, distance = (distance < 0) * count, distance.abs()
    exact, distance = count // 2, distance.clamp(min=0)
    far = torch.log(distance.clamp(min=1).float() / exact) / math.log(most / exact) * (count - exact)
    far = (exact + far.to(torch.long)).clamp(max=count - 1)
    return ahead + torch.where(distance < exact, distance, far)


class T5:
    def __init__(self, c, w):
        self.c, self.w = c, w

    def norm(self, x, name):
        return x * torch.rsqrt((x * x).mean(2, keepdim=True) + self.c["layer_norm_epsilon"]) * self.w[name + ".weight"]

    def dense(self, x, name):
        return x @ self.w[name + ".weight"].T

    def attend(self, x, memory, name, bias, padding):
        q = split_heads(self.dense(x, name + ".q"), self.c["num_heads"])
        k, v = (split_heads(self.dense(memory, f"{name}.{part}"), self.c["num_heads"]) for part in "kv")
        scores = q @ k.transpose(2, 3) + bias
        if padding is not None:
            scores = scores.masked_fill(padding[:, None, None], -math.inf)
        return self.dense(join_heads(torch.softmax(scores, 3) @ v), name + ".o")

    def perceive(self, x, name):
        activation = {"relu": functional.relu, "gated-gelu": gelu_new}[self.c["feed_forward_proj"]]
        inner = [self.dense(x, f"{name}.{part}") for part in t5_inner(self.c)]
        return self.dense(math.prod([activation(inner[0]), *inner[1:]]), name + ".wo")

    def side(self, x, side, layers, padding, memory=None):
        places = torch.arange(x.shape[1])
        distance = places[:, None] - places
        table = self.w[side + ".block.0.layer.0.SelfAttention.relative_attention_bias.weight"]
        bias = table[t5_bucket(self.c, distance, memory is None)].permute(2, 0, 1)
        if memory is not None:
            bias = bias.masked_fill(distance < 0, -math.inf)
        for layer in range(layers):
            h = f"{side}.block.{layer}.layer."
            n = self.norm(x, h + "0.layer_norm")
            x = x + self.attend(n, n, h + "0.SelfAttention", bias, padding if memory is None else None)
            if memory is not None:
                x = x + self.attend(self.norm(x, h + "1.layer_norm"), memory, h + "1.EncDecAttention", 0,
                                    padding)
            last = f"{h}{1 if memory is None else 2}."
            x = x + self.perceive(self.norm(x, last + "layer_norm"), last + "DenseReluDense")
        return self.norm(x, side + ".final_layer_norm")


def t5_logits(c, w, tokens, decoder_tokens):
    net, shared = T5(c, w), w["shared.weight"]
    padding = tokens == c["pad_token_id"]
    memory = net.side(shared[tokens.long()], "encoder", c["num_layers"], padding)
    x = net.side(shared[decoder_tokens.long()], "decoder", c["num_decoder_layers"], padding, memory)
    return net.dense(x, "lm_head") if "lm_head.weight" in w else x * c["d_model"] ** -0.5 @ shared.T


# Of each family: shapes, the model, what makes its samples (None: it reads the text), and the package's class.
FAMILIES = {"gpt2": (gpt2_shapes, gpt2_logits, None, "GPT2LMHeadModel"),
            "llama": (llama_shapes, llama_logits, None, "LlamaForCausalLM"),
            "mistral": (llama_shapes, llama_logits, causal_samples, "MistralForCausalLM"),
            "mixtral": (llama_shapes, llama_logits, None, "MixtralForCausalLM"),
            "qwen2": (llama_shapes, llama_logits, None, "Qwen2ForCausalLM"),
            "qwen3": (llama_shapes, llama_logits, None, "Qwen3ForCausalLM"),
            "qwen3_moe": (llama_shapes, llama_logits, None, "Qwen3MoeForCausalLM"),
            "windows": (llama_shapes, llama_logits, None, "Qwen3ForCausalLM"), # of some layers
            "gpt_oss": (llama_shapes, llama_logits, None, "GptOssForCausalLM"),
            "phi3": (llama_shapes, llama_logits, None, "Phi3ForCausalLM"),
            "gemma": (llama_shapes, llama_logits, None, "GemmaForCausalLM"),
            "granite": (llama_shapes, llama_logits, None, "GraniteForCausalLM"),
            "smollm3": (llama_shapes, llama_logits, None, "SmolLM3ForCausalLM"),
            "starcoder2": (llama_shapes, llama_logits, None, "Starcoder2ForCausalLM"),
            "stablelm": (llama_shapes, llama_logits, None, "StableLmForCausalLM"),
            "stablelm_parallel": (llama_shapes, llama_logits, None, "StableLmForCausalLM"), # and heads normalized
            "gemma2": (llama_shapes, llama_logits, None, "Gemma2ForCausalLM"),
            "gemma3_text": (llama_shapes, llama_logits, None, "Gemma3ForCausalLM"),
            "olmo2": (llama_shapes, llama_logits, None, "Olmo2ForCausalLM"),
            "glm": (llama_shapes, llama_logits, None, "GlmForCausalLM"),
            "glm4": (llama_shapes, llama_logits, None, "Glm4ForCausalLM"),
            "gpt_neox": (neox_shapes, neox_logits, None, "GPTNeoXForCausalLM"),
            "deepseek_v2": (deepseek_shapes, deepseek_logits, None, "DeepseekV2ForCausalLM"),
            "deepseek_v3": (deepseek_shapes, deepseek_logits, None, "DeepseekV3ForCausalLM"),
            "opt": (opt_shapes, opt_logits, None, "OPTForCausalLM"),
            "opt_after": (opt_shapes, opt_logits, None, "OPTForCausalLM"), # norms behind sums, narrow embeddings
            "bert": (bert_shapes, bert_logits, bert_samples, "BertForMaskedLM"),
            "roberta": (bert_shapes, bert_logits, bert_samples, "RobertaForMaskedLM"),
            "distilbert": (distilbert_shapes, distilbert_logits, distilbert_samples, "DistilBertForMaskedLM"),
            "t5": (t5_shapes, t5_logits, t5_samples, "T5ForConditionalGeneration"),
            "t5_untied": (t5_shapes, t5_logits, t5_samples, "T5ForConditionalGeneration"), # as transformers 5 saves it
            "vit": (vit_shapes, vit_logits, vit_samples, "ViTForImageClassification")}
# Whose gains are 1 and what is stored.
BESIDE_ONE = {"gemma", "gemma2", "gemma3_text"}
# How the folder's weights are stored where it is not as one file of float32: dtype and shards.
STORED = {"mistral": (torch.float16, 1), "mixtral": (torch.bfloat16, 3), "qwen2": (torch.bfloat16, 3)}
DTYPES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int32: "I32"}
# What the package calls the inputs.
PACKAGED = {"tokens": "input_ids", "token_types": "token_type_ids", "decoder_tokens": "decoder_input_ids",
            "inputs": "pixel_values"}


def plain_model(config, weights):
    """The weights to train by their stored names, and the function from inputs to logits, or to a
    pair of them and what is added to their loss."""
    logits = FAMILIES[config["model_type"]][1]
    leaves = {name: value.double().requires_grad_() for name, value in weights.items()}
    return leaves, lambda inputs: logits(config, leaves, **inputs)


def packaged_model(config, weights):
    """The same from transformers, whose GPT-2 keeps its weights under a prefix, and whose T5 is untied only where its
    configuration says so before version 5."""
    import transformers
    if config["model_type"] == "t5":
        config = {**config, "tie_word_embeddings": "lm_head.weight" not in weights}
    prefix = "transformer." if config["model_type"] == "gpt2" else ""
    with transformers.modeling_utils.no_init_weights(): # which fails where heads have gains and no shifts
        model = getattr(transformers, FAMILIES[config["model_type"]][3])(
            transformers.AutoConfig.for_model(**config, attn_implementation="eager")).eval()
    model.tie_weights()
    leaves = {name[len(prefix) * name.startswith(prefix):]: value for name, value in model.named_parameters()}
    leaves |= {name: value for name, value in model.named_buffers() if name in weights}
    assert leaves.keys() == weights.keys(), leaves.keys() ^ weights.keys()
    with torch.no_grad():
        for name, value in leaves.items():
            value.copy_(weights[name])

    def logits(inputs):
        given = {PACKAGED[name]: value for name, value in inputs.items()}
        if "tokens" in inputs and config.get("pad_token_id") is not None:
            given["attention_mask"] = inputs["tokens"] != config["pad_token_id"]
        result = model(**given)
        balance = getattr(result, "aux_loss", None)
        return result.logits if balance is None else (result.logits, config["router_aux_loss_coef"] * balance)
    return leaves, logits


class Adafactor(torch.optim.Optimizer):
    """As torch.optim.Adafactor of PyTorch 2.5 and later computes, with its defaults for float32."""
    EPSILON = 2**-23

    def __init__(self, groups, lr):
        super().__init__(groups, {"lr": lr})

    def step(self):
        for group in self.param_groups:
            for weight in group["params"]:
                self.change(weight, weight.grad, self.state[weight], group["lr"], group["weight_decay"])

    def change(self, weight, grad, state, rate, decay):
        state["step"] = state.get("step", 0) + 1
        fresh, square = state["step"] ** -0.8, grad * grad

        def average(name, value):
            state[name] = (1 - fresh) * state.get(name, 0) + fresh * value
            return state[name]

        with torch.no_grad():
            size = max(1e-3, weight.square().mean().sqrt().item())
            if grad.dim() > 1:
                row = average("row", square.mean(-1, keepdim=True))
                column = average("column", square.mean(-2, keepdim=True))
                variance = row @ column / row.mean(-2, keepdim=True).clamp(min=self.EPSILON)
            else:
                variance = average("variance", square)
            update = grad / variance.clamp(min=self.EPSILON**2).sqrt()
            clip = max(1.0, update.square().mean().sqrt().item())
            weight.mul_(1 - rate * decay)
            weight.sub_(update * (size * min(rate, state["step"] ** -0.5) / clip))


# By the names of `braid compile --optimizer`.
OPTIMIZERS = {"adamw": lambda groups: torch.optim.AdamW(groups, lr=RATE, betas=BETAS, eps=EPSILON),
              "adam": lambda groups: torch.optim.Adam(groups, lr=RATE, betas=BETAS, eps=EPSILON),
              "momentum": lambda groups: torch.optim.SGD(groups, lr=30 * RATE, momentum=0.9),
              "adafactor": lambda groups: Adafactor(groups, lr=10 * RATE)}
# The family that is trained with all of them: no weight of it is a part of a stored one.
EVERY_OPTIMIZER = "llama"


def train(leaves, logits, read, optimizer):
    """Trains in place; yields loss and gradient norm of each step."""
    matrices = [w for w in leaves.values() if w.dim() >= 2]
    vectors = [w for w in leaves.values() if w.dim() < 2]
    optimizer = OPTIMIZERS[optimizer]([{"params": matrices, "weight_decay": DECAY},
                                       {"params": vectors, "weight_decay": 0.0}])
    for step in range(STEPS):
        inputs, targets = read(step)
        scores = logits(inputs)
        scores, more = scores if isinstance(scores, tuple) else (scores, 0)
        loss = functional.cross_entropy(scores.flatten(0, -2), targets.flatten()) + more
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(list(leaves.values()), CLIP)
        optimizer.step()
        yield loss.item(), norm.item()


def write_safetensors(path, weights):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, value in sorted(weights.items()):
        flat = value.detach().flatten()
        raw = bytes(flat.view(torch.int16 if flat.element_size() == 2 else torch.int32).numpy().tobytes())
        header[name] = {"dtype": DTYPES[value.dtype], "shape": list(value.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def write_model(folder, weights, shards):
    """One file, or shards of as many tensors each, with their index."""
    if shards == 1:
        write_safetensors(os.path.join(folder, "model.safetensors"), weights)
        return
    names, index = sorted(weights), {}
    for shard in range(shards):
        file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        part = names[len(names) * shard // shards:len(names) * (shard + 1) // shards]
        write_safetensors(os.path.join(folder, file), {name: weights[name] for name in part})
        index.update({name: file for name in part})
    size = sum(value.numel() * value.element_size() for value in weights.values())
    with open(os.path.join(folder, "model.safetensors.index.json"), "w", encoding="ascii") as file:
        json.dump({"metadata": {"total_size": size}, "weight_map": index}, file, indent=2)
        file.write("\n")


def make(family, packaged):
    folder = os.path.join(ROOT, family)
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    shapes, _, make_samples, _ = FAMILIES[family]
    samples = make_samples(config) if make_samples else None
    read = sample_batches(samples) if samples else text_batches(config)
    dtype, shards = STORED.get(family, (torch.float32, 1))
    weights = initial_weights(shapes(config), dtype, 0.0 if family in BESIDE_ONE else 1.0)
    if not packaged:
        write_model(folder, weights, shards)
        if samples:
            write_safetensors(os.path.join(folder, "samples.safetensors"), samples)
    for optimizer in OPTIMIZERS if family == EVERY_OPTIMIZER else ["adamw"]:
        leaves, logits = (packaged_model if packaged else plain_model)(config, weights)
        lines = []
        for step, (loss, norm) in enumerate(train(leaves, logits, read, optimizer)):
            lines.append(f"{step + 1} {loss:.9f} {norm:.9f}\n")
            print(family, optimizer, lines[-1], end="")
        if packaged:
            continue
        if optimizer == "adamw":
            write_safetensors(os.path.join(folder, "expected.safetensors"),
                              {name: value.float() for name, value in leaves.items()})
        name = "expected" + f"-{optimizer}" * (optimizer != "adamw") + ".txt"
        with open(os.path.join(folder, name), "w", encoding="ascii") as file:
            file.write("".join(lines))


class Sequence:
    """The numbers that the examples' makers draw."""
    def __init__(self):
        self.state = 1

    def next(self):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) & 2**64 - 1
        return self.state

    def below(self, bound):
        return (self.next() >> 33) % bound

    def weight(self, shape, bound):
        values = [((self.next() >> 40) / 8388608 - 1) * bound for _ in range(math.prod(shape))]
        return torch.tensor(values, dtype=torch.float32).double().reshape(shape).requires_grad_()


def example_images(count=64, size=32, classes=10):
    """What examples/arrays.c makes."""
    sequence, images, targets = Sequence(), [], []
    for _ in range(count):
        kind, phase = sequence.below(classes), sequence.below(32)
        targets.append(kind)
        images.append([[[((kind + 1) * x + (classes - kind) * y + phase + 8 * colour) % 32 * 7 + sequence.below(32)
                         for x in range(size)] for y in range(size)] for colour in range(3)])
    return {"images": torch.tensor(images).double() / 255, "targets": torch.tensor(targets)}


class ResNet:
    """What examples/resnet50/model.c makes."""
    def __init__(self, width=8, classes=10, blocks=(3, 4, 6, 3)):
        self.blocks, self.w, sequence = blocks, {}, Sequence()

        def conv(name, inner, out, size):
            self.w[name + ".weight"] = sequence.weight([out, inner, size, size], math.sqrt(6 / (inner * size * size)))

        def norm(name, channels, gain):
            self.w[name + ".weight"] = torch.full([channels], gain, dtype=torch.float64, requires_grad=True)
            self.w[name + ".bias"] = torch.zeros(channels, dtype=torch.float64, requires_grad=True)

        def unit(block, number, inner, out, size):
            conv(f"{block}conv{number}", inner, out, size)
            norm(f"{block}bn{number}", out, float(number < 3))

        unit("", 1, 3, width, 7)
        features = width
        for layer, count in enumerate(blocks):
            for block in range(count):
                name, inner = f"layer{layer + 1}.{block}.", width << layer
                unit(name, 1, features, inner, 1)
                unit(name, 2, inner, inner, 3)
                unit(name, 3, inner, 4 * inner, 1)
                if block == 0:
                    conv(name + "downsample.0", features, 4 * inner, 1)
                    norm(name + "downsample.1", 4 * inner, 1.0)
                features = 4 * inner
        self.w["fc.weight"] = sequence.weight([classes, features], math.sqrt(1 / features))
        self.w["fc.bias"] = torch.zeros(classes, dtype=torch.float64, requires_grad=True)

    def unit(self, x, block, number, **options):
        return self.norm(functional.conv2d(x, self.w[f"{block}conv{number}.weight"], **options), f"{block}bn{number}")

    def norm(self, x, name):
        return functional.batch_norm(x, None, None, self.w[name + ".weight"], self.w[name + ".bias"], True)

    def logits(self, images):
        x = functional.relu(self.unit(images, "", 1, stride=2, padding=3))
        x = functional.max_pool2d(x, 3, 2, 1)
        for layer, count in enumerate(self.blocks):
            for block in range(count):
                name, stride = f"layer{layer + 1}.{block}.", 2 if block == 0 and layer > 0 else 1
                y = functional.relu(self.unit(x, name, 1))
                y = functional.relu(self.unit(y, name, 2, stride=stride, padding=1))
                y = self.unit(y, name, 3)
                if block == 0:
                    down = functional.conv2d(x, self.w[name + "downsample.0.weight"], stride=stride)
                    x = self.norm(down, name + "downsample.1")
                x = functional.relu(x + y)
        return functional.linear(x.mean((2, 3)), self.w["fc.weight"], self.w["fc.bias"])


def example_volumes(count=64, size=16):
    """The same of volumes."""
    sequence, volumes, targets = Sequence(), [], []
    places = [(z, y, x) for z in range(size) for y in range(size) for x in range(size)]
    for _ in range(count):
        balls = [([sequence.below(size) for _ in range(3)], radius) for radius in (size // 3, size // 4)]
        for place in places:
            inside = [sum((a - b) ** 2 for a, b in zip(place, at)) <= radius**2 for at, radius in balls]
            targets.append(2 if inside[1] else int(inside[0]))
            volumes.append(60 * targets[-1] + sequence.below(64))
    shape = [count, size, size, size]
    return {"images": torch.tensor(volumes).double().reshape(count, 1, *shape[1:]) / 255,
            "targets": torch.tensor(targets).reshape(shape)}


class UNet:
    """What examples/unet3d/model.c makes."""
    def __init__(self, width=4, classes=3, levels=3):
        self.levels, self.w, sequence = levels, {}, Sequence()

        def conv(name, dims, inner, channels):
            bound = math.sqrt(6 / (inner * math.prod(dims[2:]))) if inner == dims[1] else math.sqrt(6 / inner)
            self.w[name + ".weight"] = sequence.weight(dims, bound)
            self.w[name + ".bias"] = torch.zeros(channels, dtype=torch.float64, requires_grad=True)

        def level(name, inner, out):
            for unit, channels in enumerate((inner, out, out)):
                conv(f"{name}.{unit}.conv", [out, channels, 3, 3, 3], channels, out)
                self.w[f"{name}.{unit}.norm.weight"] = torch.ones(out, dtype=torch.float64, requires_grad=True)
                self.w[f"{name}.{unit}.norm.bias"] = torch.zeros(out, dtype=torch.float64, requires_grad=True)

        for i in range(levels):
            level(f"down.{i}", width << i - 1 if i else 1, width << i)
        for i in reversed(range(levels - 1)):
            channels = width << i
            conv(f"up.{i}.widen", [2 * channels, channels, 2, 2, 2], 2 * channels, channels)
            level(f"up.{i}", 2 * channels, channels)
        conv("head", [classes, width, 1, 1, 1], width, classes)

    def conv(self, x, name, **options):
        return functional.conv3d(x, self.w[name + ".weight"], self.w[name + ".bias"], **options)

    def level(self, x, name, stride):
        for unit in range(3):
            x = self.conv(x, f"{name}.{unit}.conv", stride=1 if unit else stride, padding=1)
            gain, bias = (self.w[f"{name}.{unit}.norm.{part}"] for part in ("weight", "bias"))
            x = functional.leaky_relu(functional.instance_norm(x, None, None, gain, bias))
        return x

    def logits(self, x):
        skips = []
        for i in range(self.levels):
            x = self.level(x, f"down.{i}", 2 if i else 1)
            skips.append(x)
        for i in reversed(range(self.levels - 1)):
            widen = f"up.{i}.widen"
            x = functional.conv_transpose3d(x, self.w[widen + ".weight"], self.w[widen + ".bias"], stride=2)
            x = self.level(torch.cat((x, skips[i]), 1), f"up.{i}", 1)
        return self.conv(x, "head")


def dice(logits, targets):
    """A mean over samples and classes, as MONAI's DiceLoss with softmax and to_onehot_y."""
    shares = logits.softmax(1)
    truth = functional.one_hot(targets, shares.shape[1]).movedim(-1, 1)
    both, sums = (part.flatten(2).sum(2) for part in (shares * truth, shares + truth))
    return (1 - (2 * both + 1e-5) / (sums + 1e-5)).mean()


def split_decay(net, decay):
    """A group of weights that decay, and one of those that do not."""
    return [{"params": [w for w in net.w.values() if (w.dim() > 1) == matrices], "weight_decay": decay * matrices}
            for matrices in (True, False)]


def resnet_example():
    net = ResNet()
    return (net, example_images(), 16, functional.cross_entropy, math.inf,
            torch.optim.SGD(split_decay(net, 1e-4), lr=0.05, momentum=0.9))


def unet_example():
    net = UNet()
    return (net, example_volumes(), 8, dice, 1.0,
            torch.optim.SGD(split_decay(net, 3e-5), lr=0.03, momentum=0.9))


def experts_weights():
    """What tests/support/experts.awk makes."""
    weights = {}

    def tensor(name, number, shape, scale, base=0):
        values = [base + scale * math.sin(1.7 * i + number) for i in range(math.prod(shape))]
        rounded = torch.tensor([float(f"{value:.12f}") for value in values], dtype=torch.float32)
        weights[name] = rounded.double().reshape(shape).requires_grad_()

    tensor("embed.weight", 0, [256, 16], 1)
    for layer in range(2):
        tensor(f"norms.{layer}.weight", 1 + 20 * layer, [16], 0.1, 1)
        tensor(f"moes.{layer}.gate.weight", 2 + 20 * layer, [4, 16], 0.5)
        for expert in range(4):
            for number, shape in enumerate(([24, 16], [16, 24], [24, 16])):
                tensor(f"moes.{layer}.experts.{expert}.w{number + 1}.weight", 3 + 20 * layer + 4 * expert + number,
                       shape, 0.4)
    tensor("norm.weight", 90, [16], 0.1, 1)
    tensor("head.weight", 91, [256, 16], 0.5)
    return weights


def make_experts():
    """The losses of tests/road/experts.sh."""
    config = {"num_local_experts": 4, "hidden_size": 16, "num_experts_per_tok": 2, "n_positions": 16}
    w = experts_weights()

    def norm(x, name):
        return x * torch.rsqrt((x * x).mean(2, keepdim=True) + 1e-5) * w[name + ".weight"]

    def logits(inputs):
        x = w["embed.weight"][inputs["tokens"].long()]
        for layer in range(2):
            x = x + Experts(config, w).perceive(norm(x, f"norms.{layer}"), f"moes.{layer}.")
        return norm(x, "norm") @ w["head.weight"].T

    with open(os.path.join(ROOT, "..", "data", "experts.txt"), "w", encoding="ascii") as file:
        for step, (loss, size) in enumerate(train(w, logits, text_batches(config), "adamw")):
            file.write(f"{step + 1} {loss:.9f} {size:.9f}\n")
            print("experts", step + 1, loss, size)


EXAMPLES = {"resnet50": resnet_example, "unet3d": unet_example}


def make_example(name, steps=5):
    """The losses of examples/NAME/run.sh."""
    net, samples, batch, criterion, clip, optimizer = EXAMPLES[name]()
    with open(os.path.join(ROOT, name, "expected.txt"), "w", encoding="ascii") as file:
        for step in range(steps):
            rows = [window(step, sample, len(samples["targets"])) for sample in range(batch)]
            loss = criterion(net.logits(samples["images"][rows]), samples["targets"][rows])
            optimizer.zero_grad()
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(list(net.w.values()), clip).item()
            optimizer.step()
            file.write(f"{step + 1} {loss.item():.9f} {norm:.9f}\n")
            print(name, step + 1, loss.item(), norm)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("family", nargs="*", choices=[[], *FAMILIES, *EXAMPLES, "experts"],
                        metavar="|".join([*FAMILIES, *EXAMPLES, "experts"]), help="default: all")
    parser.add_argument("--transformers", action="store_true",
                        help="print what that package's models give, write nothing")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for family in arguments.family or [*FAMILIES, *EXAMPLES, "experts"]:
        if family == "experts":
            make_experts()
        elif family in EXAMPLES:
            make_example(family)
        else:
            make(family, arguments.transformers)


if __name__ == "__main__":
    main()
