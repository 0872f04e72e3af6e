#!/usr/bin/env bash
# Times the planner and prints tables: large models; more devices; more equal layers; few micro-batches; larger spaces. CPU seconds
# are user and system time of a whole `braid compile --emit plan`, wall seconds mean little on a busy machine.
#   scripts/bench-planner.sh [large|devices|layers|few|spaces]...     BRAID names a built braid; needs GNU time.
set -euo pipefail
. "$(dirname "$0")/help.sh"
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/scripts/built.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

head_row() {
  echo
  echo "| $1 | stages x mesh, micro-batch | step, s | gap | settings: all / bounded / solved | CPU s | wall s | MB |"
  echo '|---|---|---|---|---|---|---|---|'
}

# NAME OPTIONS...: one row.
row() {
  local name=$1
  shift
  /usr/bin/time -f '%U %S %e %M' -o "$work/time" \
    "$BRAID" compile "$@" --time-limit 600 --emit plan -o "$work/plan.json" 2>"$work/log" ||
    { echo "| $name | $(head -1 "$work/log") |"; return; }
  awk -v name="$name" '
    FNR == NR { cpu = $1 + $2; wall = $3; mb = $4 / 1024; next }
    /"micro_batch":/ { gsub(/[^0-9]/, ""); micro = $0 }
    /"stages": [0-9]/ { gsub(/[^0-9]/, ""); stages = $0 }
    /"mesh": \[/ && !mesh { gsub(/.*\[|\].*/, ""); mesh = $0 }
    /"step_seconds":/ && !step { gsub(/[^0-9.e+-]/, ""); gsub(/^e+_*e*|^[^0-9]*/, ""); step = $0 }
    /"gap":/ { gsub(/.*: |,.*/, ""); gap = 100 * $0 }
    /"search":/ { if (/full space/) { split($0, n, /[^0-9]+/); search = n[2] " graphs, " n[4] " plans"; next }
      gsub(/.*of /, ""); gsub(/[^0-9 ]/, ""); split($0, n, " +"); search = n[1] " / " n[2] " / " n[3] }
    END {
      printf "| %s | %s x (%s), %s | %.4g | %.2f %% | %s | %.2f | %.2f | %.0f |\n", name, stages, mesh, micro, step,
        gap, search, cpu, wall, mb
    }' "$work/time" "$work/plan.json"
}

large() {
  head_row 'model, cluster, global batch'
  row 'gpt3-175b, a100-80gb:128x8, 1536' gpt3-175b --cluster a100-80gb:128x8 --global-batch 1536
  row 'gpt3-175b bf16, a100-80gb:128x8, 1536' gpt3-175b --cluster a100-80gb:128x8 --global-batch 1536 --precision bf16
  row 'gpt-1t, a100-80gb:384x8, 3072' gpt-1t --cluster a100-80gb:384x8 --global-batch 3072
  row 'gpt-1t bf16, a100-80gb:384x8, 3072' gpt-1t --cluster a100-80gb:384x8 --global-batch 3072 --precision bf16
  for batch in 64 128 256 512; do
    row "llama-3-8b bf16, h100:1x8, $batch" llama-3-8b --cluster h100:1x8 --global-batch "$batch" --precision bf16
  done
  row 'llama-3-8b bf16 seq 2048, h100:1x8, 256' llama-3-8b --seq 2048 --cluster h100:1x8 --global-batch 256 --precision bf16
  row 'llama-3-8b, h100:1x8, 64' llama-3-8b --cluster h100:1x8 --global-batch 64
  row 'llama-3-70b bf16 seq 4096, h100:16x8, 512' llama-3-70b --seq 4096 --cluster h100:16x8 --global-batch 512 --precision bf16
  row 'mixtral-8x7b bf16, h100:4x8, 256' mixtral-8x7b --cluster h100:4x8 --global-batch 256 --precision bf16
  row 'mixtral-8x7b bf16, a100-80gb:16x8, 256' mixtral-8x7b --cluster a100-80gb:16x8 --global-batch 256 --precision bf16
  row 'gpt2-1558m bf16, h100:1x8, 512' gpt2-1558m --cluster h100:1x8 --global-batch 512 --precision bf16
  row 'resnet-152, h100:1x8, 256' resnet-152 --cluster h100:1x8 --global-batch 256
  row 'unet3d, h100:1x8, 16' unet3d --cluster h100:1x8 --global-batch 16
  row 'gpt2-124m seq 256 in 600 MiB, cpu:1x4, 8' gpt2-124m --seq 256 --cluster cpu:1x4 --global-batch 8 --memory-cap 600MiB
  for blocks in 24 96; do
    encoder_decoder $((blocks / 2))
    row "T5 bf16, $blocks blocks, h100:2x8, 256" "$work/t5" --seq 512 --cluster h100:2x8 --global-batch 256 --precision bf16
    row "T5 bf16, $blocks blocks, a100-40gb:1x8, 256" "$work/t5" --seq 512 --cluster a100-40gb:1x8 --global-batch 256 \
      --precision bf16
  done
}

# BLOCKS: a T5 1024 wide with as many blocks in its encoder and in its decoder, in $work/t5.
encoder_decoder() {
  mkdir -p "$work/t5"
  cat >"$work/t5/config.json" <<END
{"model_type": "t5", "vocab_size": 32128, "n_positions": 512, "d_model": 1024, "d_kv": 64, "d_ff": 2816, "num_heads": 16,
 "num_layers": $1, "num_decoder_layers": $1, "relative_attention_num_buckets": 32, "feed_forward_proj": "gated-gelu",
 "tie_word_embeddings": false, "pad_token_id": 0, "decoder_start_token_id": 0}
END
}

# What follows the passes is a large part of a step.
few() {
  head_row 'model, cluster; bf16, a global batch of 32'
  while read -r model cluster; do
    row "$model, $cluster" "$model" --cluster "$cluster" --global-batch 32 --precision bf16
  done <<'END'
gpt2-124m h100:2x8
gpt2-124m a100-40gb:2x8
gpt2-124m rtx-4090:2x4
gpt2-124m l40s:2x4
gpt2-355m rtx-4090:2x4
gpt2-1558m a100-40gb:2x8
gpt2-1558m rtx-4090:2x4
resnet-50 h100:1x8
resnet-50 rtx-4090:2x4
END
}

# A micro-batch a device, the same for all.
devices() {
  head_row 'gpt3-175b bf16, devices, global batch'
  for nodes in 16 32 64 128 256 512; do
    row "$((nodes * 8)) devices, $((nodes * 12))" gpt3-175b --cluster "a100-80gb:${nodes}x8" --global-batch $((nodes * 12)) \
      --precision bf16
  done
}

# BLOCKS WIDTH HEADS SEQUENCE CLUSTER BATCH PRECISION CAP: CPU seconds, the fewer of two runs, and the gap. CAP: MiB, or 0.
deep() {
  local folder="$work/deep"
  local -a cap=()
  [ "$8" = 0 ] || cap=(--memory-cap "${8}MiB")
  mkdir -p "$folder"
  cat >"$folder/config.json" <<END
{"model_type": "gpt2", "vocab_size": 50257, "n_positions": $4, "n_embd": $2, "n_layer": $1, "n_head": $3}
END
  for _ in 1 2; do
    /usr/bin/time -f '%U %S' -o "$work/time" "$BRAID" compile "$folder" --seq "$4" --cluster "$5" --global-batch "$6" \
      --precision "$7" "${cap[@]}" --time-limit 600 --emit plan -o "$work/plan.json" 2>"$work/log" ||
      { head -1 "$work/log" >&2; exit 1; }
    awk '{ print $1 + $2 }' "$work/time"
  done | sort -n | head -1
  awk '/"gap":/ { gsub(/.*: |,.*/, ""); print 100 * $0 }' "$work/plan.json"
}

# MEMORY: `all`, the same for any number of blocks, or `share`, in proportion to it.
deep_table() {
  echo
  echo '| blocks, cluster, global batch | 24, CPU s | 48, CPU s | 96, CPU s | 96 to 24 | gaps, % |'
  echo '|---|---|---|---|---|---|'
  while read -r width heads sequence cluster batch precision mib; do
    local cells='' gaps='' first=''
    for count in 24 48 96; do
      local cap=0
      [ "$1" = all ] || cap=$((mib * count / 96))
      local -a got
      mapfile -t got < <(deep "$count" "$width" "$heads" "$sequence" "$cluster" "$batch" "$precision" "$cap")
      first=${first:-${got[0]}}
      cells+=" $(printf '%.2f' "${got[0]}") |"
      gaps+=" $(printf '%.2f' "${got[1]}")"
    done
    echo "| $width wide, sequence $sequence, $precision, $cluster, $batch |$cells" \
      "$(awk -v a="$first" -v b="${got[0]}" 'BEGIN { printf "%.2f", b / a }') |$gaps |"
  done <<'END'
768 12 1024 h100:1x8 64 bf16 75000
768 12 1024 h100:1x8 512 bf16 75000
1024 16 1024 h100:1x8 64 fp32 75000
1600 25 1024 a100-80gb:1x8 64 bf16 75000
2048 16 1024 a100-80gb:1x8 256 bf16 75000
2048 16 2048 a100-40gb:2x8 256 bf16 37000
4096 32 2048 a100-80gb:4x8 256 bf16 75000
4096 32 2048 h100:8x8 512 fp32 75000
5120 40 2048 a100-80gb:8x8 256 bf16 75000
8192 64 2048 a100-80gb:32x8 1024 bf16 75000
12288 96 2048 a100-80gb:128x8 1536 bf16 75000
768 12 256 cpu:1x4 16 fp32 12000
END
}

# More and more equal blocks, of several widths on several clusters: with as much memory for each of them, and with
# the same for all.
layers() {
  deep_table share
  deep_table all
}

# Each space holds the one before.
spaces() {
  for model in 'llama-3-8b --cluster h100:1x8 --global-batch 256 --precision bf16' \
    'gpt2-1558m --cluster h100:1x8 --global-batch 512 --precision bf16' \
    'gpt3-175b --cluster a100-80gb:16x8 --global-batch 128 --precision bf16'; do
    head_row "${model%% *}: what may be chosen"
    local -a words
    read -ra words <<<"$model"
    local size=8
    [[ $model != *16x8* ]] || size=8x16
    [[ $model == *16x8* ]] || row 'one stage, one axis, everything saved' "${words[@]}" --stages 1 --mesh "$size" --recompute none
    [[ $model == *16x8* ]] || row 'and recomputation' "${words[@]}" --stages 1 --mesh "$size"
    row 'one stage, all meshes' "${words[@]}" --stages 1
    row 'all stages and meshes' "${words[@]}"
    row 'full: unequal stages, all schedules' "${words[@]}" --space full
  done
  head_row 'full, global batch'
  for precision in fp32 bf16; do
    row "gpt3-175b $precision, a100-80gb:128x8, 1536" gpt3-175b --cluster a100-80gb:128x8 --global-batch 1536 \
      --precision "$precision" --space full
  done
  row 'llama-3-70b bf16 seq 4096, h100:16x8, 512' llama-3-70b --seq 4096 --cluster h100:16x8 --global-batch 512 \
    --precision bf16 --space full
}

[ $# -gt 0 ] || set -- large devices layers few spaces
for table in "$@"; do
  case $table in
  large | devices | layers | few | spaces) "$table" ;;
  *) echo "bench-planner.sh: no table '$table'" >&2; exit 2 ;;
  esac
done
