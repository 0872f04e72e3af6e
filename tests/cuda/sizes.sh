#!/bin/sh
# Programs of real sizes: every generated kernel assembles, none spills registers but attention a few, and none but
# the kinds that docs/kernels.md lists moves less than 16 bytes at once.
#   sizes.sh BRAID PTXAS NAME      of sizes.txt
set -eu
braid=$(realpath "$1") ptxas=$2 name=$3
here=$(dirname "$(realpath "$0")")
. "$here/assemble.sh"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

line=$(awk -v name="$name" '$1 == name' "$here/sizes.txt")
set -- $line
architectures=$(echo "$2" | tr , ' ') model=$3
shift 3

mkdir bert qwen2 t5 vit
cat >bert/config.json <<'END_OF_FILE'
{
  "model_type": "bert", "architectures": ["BertForMaskedLM"],
  "vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2, "hidden_size": 768,
  "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12,
  "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "pad_token_id": 0
}
END_OF_FILE
cat >qwen2/config.json <<'END_OF_FILE'
{
  "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"],
  "vocab_size": 151936, "max_position_embeddings": 32768, "hidden_size": 1536, "intermediate_size": 8960,
  "num_hidden_layers": 28, "num_attention_heads": 12, "num_key_value_heads": 2,
  "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "tie_word_embeddings": true
}
END_OF_FILE
cat >t5/config.json <<'END_OF_FILE'
{
  "model_type": "t5", "architectures": ["T5ForConditionalGeneration"],
  "vocab_size": 32128, "n_positions": 512, "d_model": 768, "d_kv": 64, "d_ff": 3072, "num_heads": 12,
  "num_layers": 12, "num_decoder_layers": 12, "feed_forward_proj": "relu", "dropout_rate": 0.1
}
END_OF_FILE
cat >vit/config.json <<'END_OF_FILE'
{
  "model_type": "vit", "architectures": ["ViTForImageClassification"],
  "image_size": 224, "patch_size": 16, "num_channels": 3, "hidden_size": 768, "intermediate_size": 3072,
  "num_hidden_layers": 12, "num_attention_heads": 12, "num_labels": 1000
}
END_OF_FILE

case " $* " in *' --cluster '*) ;; *) set -- --cluster h100:1x1 "$@" ;; esac
case " $* " in *' --global-batch '*) ;; *) set -- --global-batch 8 "$@" ;; esac
"$braid" compile "$model" "$@" --emit c -o out
# Of few samples none is worth rounding its factors.
case " $* " in
*' --precision fp8 '*) grep -q 'has_f8_products = 1' out/main.c || { echo "$name: no product is in 8 bits; give it more samples"; exit 1; } ;;
esac
failed=0
assemble "$name" "$architectures" || failed=1
awk -v what="$name" -f "$here/narrow.awk" out/kernels.ptx out/stage*.c || failed=1
exit "$failed"
