#!/bin/bash
# Experts that drop no token, under several plans: with samples, features and layers over ranks the losses are one rank's, and
# those of experts with places for all tokens. Features of the second model are cut unevenly, and each of its tokens chooses
# all experts; samples of the third have one token.
#   dropless.sh BRAID [FOLDER]
set -euo pipefail
braid=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
. "$here/road.sh"
open_folder "${2:-}"
write_text text.txt

# NAME TOKENS INNER EXPERTS CHOICES
write_experts() {
  mkdir -p "$1" "$1-places"
  cat >"$1/config.json" <<END
{"model_type": "mixtral", "vocab_size": 257, "max_position_embeddings": $2, "hidden_size": 32, "intermediate_size": $3,
 "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "sliding_window": null,
 "num_local_experts": $4, "num_experts_per_tok": $5}
END
  sed "s/\"num_local_experts\"/\"expert_capacity\": $2, &/" "$1/config.json" >"$1-places/config.json"
}

# MODEL; standard input as of train_plans: `one` and others of it, and of its like with places.
train_all() {
  rm -rf one
  train_plans "$1" 5
  grep -q bd_rt_grouped_rows one/stage0.c || fail "experts of $1 have places"
  plan_model places "$1-places" 1 1 1 8 - - none -
  build places
  grep -q bd_rt_grouped places/stage0.c && fail "experts of $1-places have none"
  train places 1 5
  check_losses one places
  for name in *.ranks; do rm -rf "${name%.ranks}" "$name"; done
}

# NAME RANKS STAGES MESH MICRO-BATCH RECOMPUTE
write_experts some 96 48 8 2
train_all some <<'END'
  one       1 1 1         8 none
  samples   4 1 dp=4      8 none
  zero      4 1 dp=4,zero=1 4 full
  features  2 1 tp=2      8 none
  tokens    4 1 sp=2,tp=2 4 -
  crossed   4 1 dp=2,tp=2 4 full
  pipeline  4 2 dp=2      2 full
END
write_experts all 7 50 3 3
train_all all <<'END'
  one       1 1 1         8 none
  features  4 1 tp=4      8 none
  crossed   4 1 dp=2,tp=2 2 full
END
write_experts few 1 16 4 2
train_all few <<'END'
  one       1 1 1         8 none
  samples   4 1 dp=4      8 none
END
finish
