#!/bin/bash
# Halves and fp8 over 100 steps beside fp32, of a Llama, of GPT-2 with dropout, of a Mixtral and of a ResNet; fp16 and fp8 under other plans; and its loss scale: an overflow skips one step on all
# ranks alike and leaves no other trace, steps without one let the scale grow, and what no scale helps ends the run.
#   fp16.sh BRAID [FOLDER]
set -euo pipefail
braid=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
. "$here/road.sh"
open_folder "${2:-}"
write_text text.txt
# Every sample of it is the same and the model draws no numbers: without its update, a step is the one before.
head -c 4096 /dev/zero | tr '\0' a >same.txt
mkdir model
cat >model/config.json <<'END'
{"model_type": "llama", "vocab_size": 257, "max_position_embeddings": 32, "hidden_size": 64, "intermediate_size": 176,
 "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "attention_dropout": 0.0}
END

# NAME OUT OPTION...: metrics and weights go to OUT.jsonl and OUT.weights; the status is returned.
run() {
  local name=$1 out=$2 status=0 rate=(--lr 1e-3)
  shift 2
  [[ " $* " != *' --lr '* ]] || rate=()
  mpirun --allow-run-as-root --oversubscribe -n "$(ranks_of "$name")" "$name/train" --data same.txt "${rate[@]}" \
    --metrics "$out.jsonl" --save "$out.weights" "$@" 2>"$out.log" </dev/null || status=$?
  return $status
}
must_run() {
  run "$@" || { echo "FAIL: $2 does not train:"; tail -5 "$2.log"; exit 1; }
}

member() { sed -n "s/.*\"$1\": \([^,}]*\).*/\1/p" "$2"; }

# OUT SCALE...: the scale of every step; those with a minus were skipped.
check_scales() {
  local out=$1
  paste -d' ' <(member loss_scale "$out.jsonl") <(member skipped "$out.jsonl") <(member grad_norm "$out.jsonl") |
    awk -v wanted="${*:2}" '
      { n = split(wanted, each, " "); got = ($2 == "true" ? "-" : "") $1 }
      got != each[NR] || ($3 == "null") != ($2 == "true") { print "step " NR ": " $0; bad = 1 }
      END { exit bad || NR != n }' || fail "$out does not scale as it should: ${*:2}"
}

# NAME OUT WORDS STATUS OPTION...: ends with this status after one line that has these words.
check_end() {
  local name=$1 out=$2 words=$3 wanted=$4 status=0
  run "$name" "$out" "${@:5}" || status=$?
  [ "$status" = "$wanted" ] || fail "$out ends with $status instead of $wanted"
  [ "$(grep -c '^braid: ' "$out.log")" = 1 ] && grep -q "^braid: .*$words" "$out.log" ||
    { fail "$out does not say: $words"; tail -3 "$out.log"; }
}

# NAME MODEL PRECISION LIKE BOUND OPTION...: 100 steps, whose losses are within BOUND of those of LIKE, in fp32.
long() {
  precision=$3 plan_model "$1" "$2" 1 1 1 8 1f1b - none -
  build "$1"
  train "$1" 1 100 "${@:6}"
  check_losses "$4" "$1" "$5"
}
long f32 model fp32 f32 0
long bf16 model bf16 f32 2e-3
long one model fp16 f32 2e-4
long fp8 model fp8 f32 2e-3

long gpt2 gpt2-tiny fp32 gpt2 0
long gpt2-bf16 gpt2-tiny bf16 gpt2 2e-3
long gpt2-fp16 gpt2-tiny fp16 gpt2 2e-4
long gpt2-fp8 gpt2-tiny fp8 gpt2 3e-3

# Of experts, whose products are in 8 bits as well.
write_mixtral mixtral "$(dirname "$(dirname "$here")")"
long experts mixtral fp32 experts 0
long experts-bf16 mixtral bf16 experts 2e-3
# Without places, in products of rows in groups, they compute the same.
mkdir dropless
sed 's/"expert_capacity": 32, *//' mixtral/config.json >dropless/config.json
cmp -s mixtral/config.json dropless/config.json && fail "experts have places all the same"
long rows dropless fp32 experts 1e-5
long rows-bf16 dropless bf16 experts 2e-3
long rows-fp16 dropless fp16 experts 2e-4
long experts-fp8 mixtral fp8 experts 3e-3

# Of images every step trains on eight of 64 that are learned by heart: a loss differs by more from step to step, and
# what roundings do to one says little. Their mean has no such noise.
cc -std=c11 -O1 -Wall -Wextra -Werror -o samples_tool "$here/../support/samples.c" -lm
./samples_tool images 3,16,16
data=images
long resnet resnet-tiny fp32 resnet 0 --lr 3e-4
long resnet-bf16 resnet-tiny bf16 resnet 1e-1 --lr 3e-4
long resnet-fp16 resnet-tiny fp16 resnet 6e-2 --lr 3e-4
check_mean resnet resnet-bf16 5e-3
check_mean resnet resnet-fp16 5e-3
data=text.txt

# PRECISION LONG NAME BOUND: the plan NAME loses as LONG does in its first 20 steps.
cut() {
  precision=$1 plan_model "$3" model 8 2 2x2 4 1f1b 0 full batch,tensor
  build "$3"
  train "$3" 8 20
  check_memory "$3"
  mkdir "$2.20" && head -20 "$2/metrics.jsonl" >"$2.20/metrics.jsonl"
  check_losses "$2.20" "$3" "$4"
}
cut fp16 one all 5e-5
cut fp8 fp8 fp8-all 1e-3
cmp -s fp8/weights.safetensors bf16/weights.safetensors && fail "fp8 changes nothing"

# Every rank computes products of its own experts, of two and of one.
mkdir experts-fp8.20 && head -20 experts-fp8/metrics.jsonl >experts-fp8.20/metrics.jsonl
for ranks in 2 4; do
  name=experts-$ranks
  sed "s/\[4\]/[$ranks]/" "$here/../../examples/mixtral/experts.json" >partial.json
  "$braid" compile mixtral --devices $ranks --global-batch 8 --precision fp8 --partial partial.json --emit plan -o $name.json
  echo mixtral >$name.model
  echo $ranks >$name.ranks
  build $name
  grep -A6 '\.batch = '$((4 / ranks))', .m = [0-9]*, .n = 48, .k = 32' $name/stage0.c | grep -q '\.f8 = ' ||
    fail "products of experts on $ranks ranks are not in 8 bits"
  train $name $ranks 20
  check_memory $name
  check_losses experts-fp8.20 $name 1e-3
done

# So are products of rows in groups, also of parts of the samples and of the features; the plan may have them in bf16.
write_sorted sorted "$(dirname "$(dirname "$here")")"
long sorted-f32 sorted fp32 sorted-f32 0
long sorted-fp8 sorted fp8 sorted-f32 3e-3
grouped_in_8_bits() { grep -A4 'bd_rt_grouped_' "$1/stage0.c" | grep -c '\.f8 = ' || true; }
mkdir sorted-fp8.20 && head -20 sorted-fp8/metrics.jsonl >sorted-fp8.20/metrics.jsonl
for mesh in dp=2 tp=2; do
  name=sorted-${mesh%=2}
  precision=fp8 plan_model $name sorted 2 1 $mesh 8 - - none -
  build $name
  [ "$(grouped_in_8_bits $name)" = 9 ] || fail "products of groups of $name are not in 8 bits"
  train $name 2 20
  check_memory $name
  check_losses sorted-fp8.20 $name 1e-3
done
sed '/"op": "grouped_contract"/s/"cuts"/"bf16": ["forward", "input", "weight"], "cuts"/' sorted-fp8.json >sorted-some.json
cp sorted-fp8.model sorted-some.model
cp sorted-fp8.ranks sorted-some.ranks
build sorted-some
[ "$(grouped_in_8_bits sorted-some)" = 0 ] || fail "products of groups are in 8 bits where the plan has them in bf16"
train sorted-some 1 20
check_losses sorted-fp8.20 sorted-some 2e-3
cmp -s sorted-fp8.20/metrics.jsonl sorted-some/metrics.jsonl && fail "products of groups in 8 bits change nothing"

# How unevenly 32,768 tokens load their experts is a number of f16, too; how many they are is none.
mkdir uneven
cat >uneven/config.json <<'END'
{"model_type": "mixtral", "vocab_size": 257, "max_position_embeddings": 512, "hidden_size": 16, "intermediate_size": 16,
 "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "sliding_window": null, "num_local_experts": 2,
 "num_experts_per_tok": 1, "expert_capacity": 64, "output_router_logits": true, "router_aux_loss_coef": 0.01}
END
"$braid" compile uneven --devices 1 --global-batch 64 --micro-batch 64 --precision fp16 -o routed >/dev/null
echo 1 >routed.ranks
must_run routed routed --steps 1
check_scales routed 65536

# From far above, the scale comes down to the largest power of two that the first step takes.
must_run one search --steps 30 --loss-scale 1099511627776
fits=$(paste -d' ' <(member loss_scale search.jsonl) <(member skipped search.jsonl) | awk '$2 == "false" { print $1; exit }')
over=$((2 * fits))

for name in one all; do
  must_run "$name" "$name.plain" --steps 3 --loss-scale "$fits"
  check_scales "$name.plain" "$fits" "$fits" "$fits"
  must_run "$name" "$name.skips" --steps 4 --loss-scale "$over"
  check_scales "$name.skips" "-$over" "$fits" "$fits" "$fits"
  cmp -s "$name.plain.weights" "$name.skips.weights" || fail "$name: the skipped step has changed the state"
  cmp -s <(member loss "$name.plain.jsonl") <(member loss "$name.skips.jsonl" | tail -n +2) ||
    fail "$name: the skipped step has changed the losses"
done

must_run one grows --steps 7 --loss-scale 1000 --loss-scale-interval 2 --loss-scale-growth 1.5
check_scales grows 1000 1000 1500 1500 2250 2250 3375
must_run one backs --steps 3 --loss-scale "$over" --loss-scale-backoff 0.25 --loss-scale-interval 0
check_scales backs "-$over" $((over / 4)) $((over / 4))

# Weights beyond f16 make every loss infinite: the scale falls to 1, and then the run ends.
check_end all huge 'the loss of step [0-9]* is not finite' 11 --steps 30 --lr 1e6 --clip 0 --loss-scale 256
[ "$(member loss_scale huge.jsonl | tail -1)" = 2 ] || fail "the scale of huge ends elsewhere"
for wrong in 'loss-scale nan' 'loss-scale 1e99' 'loss-scale-backoff 1' 'loss-scale-growth 0.9' 'loss-scale-interval -1'; do
  check_end one wrong "--${wrong% *} takes a .*number from .* to .*, not '${wrong#* }'" 2 --steps 1 --${wrong% *} "${wrong#* }"
done
check_end one tf32 '--tf32 is for' 2 --steps 1 --tf32
check_end one tf32 '--tf32 takes no value' 2 --steps 1 --tf32=1
check_end one tune '--tune is for programs compiled with --target cuda' 2 --steps 1 --tune tune.json
check_end bf16 wrong 'programs compiled with --precision fp16' 2 --steps 1 --loss-scale 8
finish
