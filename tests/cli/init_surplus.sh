#!/bin/sh
# What weights hold beside those of the model is judged alike where a folder is compiled and where a program starts
# from it.
#   init_surplus.sh BRAID RENAME_TENSORS OLDER_BUFFERS
set -eu
braid=$(realpath "$1") rename=$(realpath "$2") buffers=$(realpath "$3")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() {
  echo "init_surplus.sh: $*" >&2
  exit 1
}
mkdir bare untied
cat >bare/config.json <<'END'
{"model_type": "gpt2", "vocab_size": 256, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4}
END
sed 's/{/{"tie_word_embeddings": false, /' bare/config.json >untied/config.json
"$braid" init bare --seed 99 -o weights
# `lm_head.weight` and `wte.weight` in one shape, drawn apart.
"$braid" init untied --seed 99 -o apart

folder() {
  mkdir "$1"
  cp bare/config.json "$1/"
}
folder buffers && "$rename" weights buffers/model.safetensors wpe.weight wpe.weight h.0.attn.bias h.1.attn.masked_bias \
  rotary_emb.inv_freq embeddings.position_ids pooler.dense.weight pooler.dense.bias cls.seq_relationship.weight \
  cls.seq_relationship.bias EncDecAttention.relative_attention_bias.weight
folder twin && "$rename" weights twin/model.safetensors wte.weight wte.weight lm_head.weight
folder prefixed && "$rename" weights inner '' transformer. &&
  "$rename" inner prefixed/model.safetensors transformer.wte.weight transformer.wte.weight lm_head.weight
folder differing && cp apart differing/model.safetensors
folder other && "$rename" weights other/model.safetensors ln_f ln_f ln_g
folder head && "$rename" weights head/model.safetensors ln_f.weight ln_f.weight score.weight
# A copy in another shape.
folder misshapen && "$rename" weights misshapen/model.safetensors wpe.weight wpe.weight lm_head.weight

"$braid" compile bare --devices 2 --stages 2 --seq 16 --global-batch 4 -o out
for name in buffers twin prefixed; do
  "$braid" compile $name --seq 16 --emit graph -o graph 2>log || fail "$name is refused: $(cat log)"
  "$braid" run out --steps 0 --init $name 2>log || fail "$name starts no program: $(cat log)"
done

# FOLDER PATTERN: it is compiled to nothing, and starts no program.
refused() {
  status=0
  "$braid" compile $1 --seq 16 --emit graph -o refused.graph 2>log || status=$?
  [ $status = 1 ] && [ "$(grep -c error: log)" = 1 ] && grep -q "$2" log || fail "$1 compiled, status $status: $(cat log)"
  [ ! -e refused.graph ] || fail "$1 is refused and compiled"
  for from in $1 $1/model.safetensors; do
    status=0
    "$braid" run out --steps 0 --init $from --save saved 2>log || status=$?
    [ $status = 12 ] && [ "$(wc -l <log)" = 1 ] && grep -q "$from: $2" log || fail "from $from, status $status: $(cat log)"
    [ ! -e saved ] || fail "from $from weights are saved"
  done
}
refused differing 'tensor "lm_head.weight" differs from "wte.weight", to which .* ties it'
refused misshapen 'tensor "lm_head.weight" differs from "wte.weight", to which .* ties it'
refused other 'tensor "ln_g.bias" is none of the .*model'
refused head 'tensor "score.weight" is none of the .*model'

# Batch normalization's count of batches is a buffer that models of images have.
"$rename" weights counted ln_f.bias ln_f.bias bn1.num_batches_tracked
"$braid" run out --steps 0 --init counted 2>log || fail "a count of batches starts no program: $(cat log)"
# In a program of the untied model both are weights.
"$braid" compile untied --devices 1 --seq 16 --global-batch 4 -o untied.out
"$braid" run untied.out --steps 0 --init apart 2>log || fail "an untied model does not start: $(cat log)"

# What older versions of transformers wrote of GPT-NeoX has buffers in every layer; where the output matrix is tied, it
# may be there once more.
mkdir older
cat >older/config.json <<'END'
{"model_type": "gpt_neox", "vocab_size": 256, "max_position_embeddings": 64, "hidden_size": 32, "intermediate_size": 48,
 "num_hidden_layers": 2, "num_attention_heads": 2, "tie_word_embeddings": true}
END
"$braid" compile older --devices 1 --seq 16 --global-batch 4 -o older.out
"$braid" init older --seed 99 -o once
"$rename" once older/model.safetensors gpt_neox.embed_in.weight gpt_neox.embed_in.weight embed_out.weight
bash "$buffers" older 2
"$braid" compile older --seq 16 --emit graph -o graph 2>log || fail "buffers of GPT-NeoX are refused: $(cat log)"
"$braid" run older.out --steps 0 --init older --save from_older.safetensors 2>log ||
  fail "a folder with buffers starts no program: $(cat log)"
"$braid" run older.out --steps 0 --init once --save from_once.safetensors 2>log || fail "no program starts: $(cat log)"
cmp from_older.safetensors from_once.safetensors || fail "buffers change the weights"
sed -i 's/attention.bias/attention.bios/g' older/model*2.safetensors older/model.safetensors.index.json
status=0
"$braid" run older.out --steps 0 --init older 2>log || status=$?
[ $status = 12 ] && grep -q 'tensor "gpt_neox.layers.0.attention.bios" is none of the .*model' log ||
  fail "what is no buffer starts a program, status $status: $(cat log)"

# Of OPT and RoBERTa the tied weights may be there once more too.
sizes='"vocab_size": 256, "max_position_embeddings": 64, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2'
mkdir opt roberta
echo "{\"model_type\": \"opt\", \"ffn_dim\": 48, $sizes}" >opt/config.json
echo "{\"model_type\": \"roberta\", \"intermediate_size\": 48, \"type_vocab_size\": 1, $sizes}" >roberta/config.json
"$braid" init opt --seed 99 -o once
"$rename" once opt/model.safetensors model.decoder.embed_tokens.weight model.decoder.embed_tokens.weight lm_head.weight
words=roberta.embeddings.word_embeddings.weight
"$braid" init roberta --seed 99 -o once
"$rename" once twice $words $words lm_head.decoder.weight
"$rename" twice roberta/model.safetensors lm_head.bias lm_head.bias lm_head.decoder.bias
for name in opt roberta; do
  "$braid" compile $name --devices 1 --seq 16 --global-batch 4 -o $name.out 2>log || fail "$name is refused: $(cat log)"
  "$braid" run $name.out --steps 0 --init $name 2>log || fail "$name starts no program: $(cat log)"
done

# A layer behind the last one that predicts further tokens has a matrix of its own, by which it is known; another is of a
# deeper model.
sizes='"vocab_size": 256, "max_position_embeddings": 64, "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 2,
  "num_key_value_heads": 2, "q_lora_rank": 12, "kv_lora_rank": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8,
  "moe_intermediate_size": 16, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1, "n_group": 1, "topk_group": 1,
  "first_k_dense_replace": 1'
mkdir three two deeper
echo "{\"model_type\": \"deepseek_v3\", \"num_hidden_layers\": 3, $sizes}" >three/config.json
echo "{\"model_type\": \"deepseek_v3\", \"num_hidden_layers\": 2, \"num_nextn_predict_layers\": 1, $sizes}" >two/config.json
cp two/config.json deeper/
"$braid" init three --seed 99 -o deeper/model.safetensors
o=model.layers.2.self_attn.o_proj
"$rename" deeper/model.safetensors two/model.safetensors $o $o model.layers.2.eh_proj
rm -rf out
"$braid" compile two --devices 2 --stages 2 --seq 16 --global-batch 4 -o out 2>log || fail "two is refused: $(cat log)"
"$braid" run out --steps 0 --init two 2>log || fail "two starts no program: $(cat log)"
refused deeper 'tensor "model.layers.2.input_layernorm.weight" is none of the .*model'
