#!/bin/bash
# The loss on held-out data: evaluating changes no bit of training, under plans of all kinds and in runs that go on; plans
# agree; it is the loss of those weights on those samples, in their order, with nothing dropped.
#   evaluation.sh BRAID SOURCE-FOLDER [FOLDER]
set -euo pipefail
braid=$(realpath "$1")
root=$(realpath "$2")
here=$(dirname "$(realpath "$0")")
. "$here/road.sh"
open_folder "${3:-}"
write_text text.txt
tail -c 3000 text.txt >held-out.txt

# NAME STEPS OPTION...
go() {
  local status=0
  mpirun --allow-run-as-root --oversubscribe -n "$(ranks_of "$1")" "$1/train" --steps "$2" --seed 1 --metrics "$1/metrics.jsonl" \
    --report "$1/report.json" "${@:3}" 2>"$1/log" </dev/null || status=$?
  [ $status = 0 ] || { echo "FAIL: $1 ends with $status, given ${*:3}:"; tail -5 "$1/log"; exit 1; }
}

# NAME: losses and norms of its steps; its evaluations; both, in their order.
steps() { grep '"loss"' "$1/metrics.jsonl" | cut -d, -f1-3; }
evaluations() { sed -n 's/{"step": \(.*\), "eval_loss": \(.*\), "eval_seconds": .*/\1 \2/p' "$1/metrics.jsonl"; }
all_lines() { sed 's/, "eval_seconds".*//; s/, "tokens_per_second".*//' "$1/metrics.jsonl"; }

# A BOUND B: two numbers are within the bound of each other, relatively.
near() { awk -v a="$1" -v bound="$2" -v b="$3" 'BEGIN { gap = a / b - 1; exit !(gap <= bound && gap >= -bound) }'; }

# NAME LIKE BOUND: what training does is the same with evaluations before, between and behind steps, also of a run that goes
# on; they are within the bound of those of LIKE.
check_plan() {
  local name=$1
  go "$name" 5 --data text.txt --save "$name/plain.safetensors"
  steps "$name" >"$name/plain.steps"
  go "$name" 5 --data text.txt --eval held-out.txt --eval-every 2 --eval-steps 3 --save "$name/evaluated.safetensors"
  check_memory "$name"
  steps "$name" | cmp -s - "$name/plain.steps" || fail "$name: evaluations change the losses of steps"
  cmp -s "$name/plain.safetensors" "$name/evaluated.safetensors" || fail "$name: evaluations change the weights"
  evaluations "$name" >"$name/evaluations"
  [ "$(cut -d' ' -f1 "$name/evaluations" | tr '\n' ' ')" = "0 2 4 5 " ] || fail "$name evaluates at other steps"
  all_lines "$name" >"$name/whole.lines"
  paste -d' ' "$name/evaluations" "$2/evaluations" | awk -v bound="$3" -v name="$name" '
    { gap = $2 / $4 - 1; if (gap < 0) gap = -gap; if (!(gap <= worst)) worst = gap }
    END { printf "%-16s evaluations differ by %.2g\n", name, worst; exit !(NR == 4 && worst <= bound) }' ||
    fail "the evaluations of $name depart from those of $2"
  go "$name" 5 --data text.txt --eval held-out.txt --eval-every 2 --eval-steps 3 --checkpoint "$name/kept" --checkpoint-every 2 \
    --checkpoint-keep 3
  rm -r "$name/kept/step-00000005" "$name/kept/step-00000004"
  go "$name" 5 --data text.txt --eval held-out.txt --eval-every 2 --eval-steps 3 --resume "$name/kept" \
    --save "$name/resumed.safetensors"
  all_lines "$name" | cmp -s - "$name/whole.lines" || fail "$name goes on with other lines"
  cmp -s "$name/plain.safetensors" "$name/resumed.safetensors" || fail "$name goes on to other weights"
  rm -r "$name/kept"
}

# BOUND: plans on standard input, of which the first stands for all.
#   NAME MODEL RANKS STAGES MESH MICRO-BATCH SCHEDULE ZERO RECOMPUTE CUT; see same_model.txt.
check_plans() {
  local name rest first=
  while read -r name rest; do
    read -ra rest <<<"$rest"
    plan_model "$name" "${rest[@]}"
    build "$name"
    first=${first:-$name}
    check_plan "$name" "$first" "$1"
  done
}

# Its dropout draws the same numbers under every plan, so that training keeps plans together.
check_plans 2e-5 <<'END'
one         gpt2-tiny 1 1 1   8 1f1b  -   none -
tensor      gpt2-tiny 2 1 2   4 1f1b  -   none tensor
stages      gpt2-tiny 2 2 1   2 1f1b  -   none -
zero-3      gpt2-tiny 4 2 2   2 gpipe 3:0 full batch
both        gpt2-tiny 4 1 2x2 4 1f1b  0   none batch,tensor
END
precision=bf16 check_plans 1e-3 <<'END'
bf16-stages gpt2-tiny 2 2 1   4 1f1b  -   none -
bf16-zero-3 gpt2-tiny 4 2 2   4 1f1b  3:0 none batch
END
precision=fp16 check_plans 1e-3 <<'END'
fp16-tensor gpt2-tiny 2 1 2   4 1f1b  0   full tensor
fp16-stages gpt2-tiny 4 2 2   4 gpipe -   none batch
END

# DROPOUT: the model of tests/oracle/gpt2 with it at every site.
write_gpt2() {
  mkdir "gpt2-$1"
  sed "s/\(_pdrop\": \)[0-9.]*/\1$1/" "$root/tests/oracle/gpt2/config.json" >"gpt2-$1/config.json"
}
write_gpt2 0.0
write_gpt2 0.5
weights=$root/tests/oracle/gpt2/model.safetensors
for dropout in 0.0 0.5; do
  batch=2 plan_model "drops-$dropout" "gpt2-$dropout" 1 1 1 1 1f1b - none -
  build "drops-$dropout"
  go "drops-$dropout" 0 --init "$weights" --eval held-out.txt --eval-steps 2
  evaluations "drops-$dropout" >"$dropout.evaluation"
done
cmp -s 0.0.evaluation 0.5.evaluation || fail "an evaluation drops something"

# The mean of the losses that steps without a learning rate have on each of its windows by itself: a file of 33 bytes has one.
: >windows
for window in 0 1 2 3; do
  tail -c +$((window * 32 + 1)) held-out.txt | head -c 33 >window.txt
  go drops-0.0 1 --init "$weights" --lr 0 --data window.txt
  sed 's/.*"loss": \([^,]*\),.*/\1/' drops-0.0/metrics.jsonl >>windows
done
near "$(cut -d' ' -f2 0.0.evaluation)" 1e-6 "$(awk '{ sum += $1 } END { print sum / NR }' OFMT=%.9g windows)" ||
  fail "an evaluation is not the loss of its windows: $(cat 0.0.evaluation windows)"
[ "$(sort -u windows | wc -l)" = 4 ] || fail "all windows have one loss"

# A file that has fewer batches than are asked for is evaluated as far as it has whole ones.
head -c $((4 * 32 + 1 + 40)) held-out.txt >few.txt
go drops-0.0 0 --init "$weights" --eval few.txt --eval-steps 50
evaluations drops-0.0 | cmp -s - 0.0.evaluation || fail "an evaluation goes on behind the last whole batch"
grep -q '  4 samples in' drops-0.0/log || fail "an evaluation does not tell how many samples it takes"

# Samples whose targets are few or many count by their targets, whichever batches they are in.
for batch in 1 4; do
  batch=$batch plan_model "bert-$batch" "$root/tests/oracle/bert" 1 1 1 1 1f1b - none -
  build "bert-$batch"
  go "bert-$batch" 0 --init "$root/tests/oracle/bert/model.safetensors" --eval "$root/tests/oracle/bert/samples.safetensors" \
    --eval-steps $((8 / batch))
done
near "$(evaluations bert-1 | cut -d' ' -f2)" 1e-6 "$(evaluations bert-4 | cut -d' ' -f2)" ||
  fail "batches count alike, not targets: $(evaluations bert-1), $(evaluations bert-4)"
finish
