#!/usr/bin/env bash
# Makes the folders that scripts/gpu-check.sh takes to a machine with a GPU: every plan of tests/road/same_model.txt, and tiny
# models in every precision, each as sources for CUDA, with data, options and the losses that one CPU rank computes.
#   scripts/gpu-folders.sh OUT [NAME]...      STEPS=4 and BRAID=build/braid are the defaults
# NAME: of a plan in these lists; all without one. OUT must not exist. A plan that braid makes no program for GPUs of ends the script
# with braid's words. Needs a built braid, MPI and a C compiler, no GPU and no CUDA toolkit.
set -euo pipefail
. "$(dirname "$0")/help.sh"
root=$(cd "$(dirname "$0")/.." && pwd)
braid=${BRAID:-$root/build/braid}
steps=${STEPS:-4}
[ $# -ge 1 ] && [ "${1#-}" = "$1" ] || { echo "usage: gpu-folders.sh OUT [NAME]..." >&2; exit 2; }
[[ $steps =~ ^[1-9][0-9]*$ ]] || { echo "gpu-folders.sh: STEPS is a whole number, not '$steps'" >&2; exit 2; }
[ -x "$braid" ] || { echo "gpu-folders.sh: there is no '$braid'; scripts/build.sh builds it, BRAID names another" >&2; exit 2; }
braid=$(realpath "$braid")
here=$root/tests/road
. "$here/road.sh"

# NAME MODEL RANKS STAGES MESH MICRO-BATCH SCHEDULE ZERO RECOMPUTE CUT PRECISION [OPTION], a line each: the plans of one model
# in fp32, then others in precisions whose products and attention are other code, and of images and volumes.
plans=$(read_plans "$here/same_model.txt" | sed 's/$/ fp32/' && read_plans <<'END'
  gpt2-tf32        gpt2-tiny     1 1 1   8 1f1b  -   none -            fp32    --tf32
  gpt2-bf16        gpt2-tiny     1 1 1   8 1f1b  -   none -            bf16
  gpt2-bf16-both   gpt2-tiny     4 1 2x2 4 1f1b  0   none batch,tensor bf16
  gpt2-bf16-zero-3 gpt2-tiny     4 2 2   4 1f1b  3:0 full batch        bf16
  gpt2-fp16        gpt2-tiny     1 1 1   8 1f1b  -   none -            fp16
  gpt2-fp8         gpt2-tiny     1 1 1   8 1f1b  -   none -            fp8
  gpt2-fp8-pipe    gpt2-tiny     4 2 2   2 1f1b  0   full batch        fp8
  gpt2-rounded     gpt2-tiny     1 1 1   8 1f1b  -   none -            rounded
  gpt2-narrow-2    gpt2-tiny     2 1 2   4 1f1b  0   none batch        narrow
  gpt2-rounded-2   gpt2-tiny     2 1 2   4 1f1b  0   none batch        rounded-adamw
  llama-tf32-both  llama-tiny    4 1 2x2 4 1f1b  0   none batch,tensor fp32    --tf32
  llama-bf16       llama-tiny    1 1 1   8 1f1b  -   none -            bf16
  llama-bf16-mixed llama-tiny    2 1 2   4 1f1b  -   full mixed        bf16
  llama-fp16       llama-tiny    1 1 1   8 1f1b  -   none -            fp16
  llama-fp16-pipe  llama-tiny    4 2 2   2 gpipe 0   full tensor       fp16
  llama-fp8-2      llama-tiny    2 1 2   4 1f1b  -   none batch        fp8
  llama-narrow     llama-tiny    1 1 1   8 1f1b  -   none -            narrow
  # Without dropout, so that attention is cuDNN's where a GPU has it.
  mixtral-bf16     mixtral       1 1 1   8 1f1b  -   none -            bf16
  mixtral-bf16-2   mixtral       2 1 2   8 1f1b  -   none -            bf16
  mixtral-fp16     mixtral       1 1 1   8 1f1b  -   none -            fp16
  mixtral-order    mixtral       1 1 1   8 1f1b  -   none -            bf16    --any-order
  # With samples of 32 tokens, in 8 bits with all its experts' products.
  mixtral-fp8      mixtral-32    1 1 1   8 1f1b  -   none -            fp8
  mixtral-fp8-2    mixtral-32    2 1 2   8 1f1b  -   none -            fp8
  # And with padding masks, whose heads are wider, and as long as an image's patches.
  bert-bf16        bert          1 1 1   8 1f1b  -   none -            bf16
  vit-bf16         vit           1 1 1   8 1f1b  -   none -            bf16
  # With windows of some layers, also of parts of the queries.
  windows          windows       1 1 1   8 1f1b  -   none -            fp32
  windows-bf16     windows       1 1 1   8 1f1b  -   none -            bf16
  windows-bf16-2   windows       2 1 sp=2 8 1f1b -   none -            bf16
  windows-order    windows       1 1 1   8 1f1b  -   none -            bf16    --any-order
  # And with sinks, and experts that have biases.
  gpt-oss          gpt_oss       1 1 1   8 1f1b  -   none -            fp32
  gpt-oss-bf16     gpt_oss       1 1 1   8 1f1b  -   none -            bf16
  gpt-oss-bf16-2   gpt_oss       2 1 sp=2 8 1f1b -   none -            bf16
  # With biases by relative position.
  t5               t5            1 1 1   8 1f1b  -   none -            fp32
  t5-2             t5            2 1 tp=2 4 1f1b -   none -            fp32
  t5-bf16          t5            1 1 1   8 1f1b  -   none -            bf16
  t5-bf16-pipe     t5            4 2 2   4 1f1b  0   full -            bf16
  t5-fp16          t5            1 1 1   8 1f1b  -   none -            fp16
  mlp-2            mlp           2 1 2   4 1f1b  0   -    -            fp32
  cnn-2            cnn           2 1 2   4 1f1b  0   -    -            fp32
  resnet           resnet-tiny   1 1 1   8 1f1b  -   none -            fp32
  resnet-bf16      resnet-tiny   1 1 1   8 1f1b  -   none -            bf16
  resnet-bf16-pipe resnet-tiny   4 2 2   2 1f1b  -   full -            bf16
  resnet-fp16-2    resnet-tiny   2 1 2   4 1f1b  -   none -            fp16
  unet-deep        unet3d-tiny   8 8 1   1 1f1b  -   none -            fp32
  unet-bf16-wide   unet3d-tiny   4 1 4   8 1f1b  -   none -            bf16
END
)
names=$(echo "$plans" | awk '{ print $1 }')
for name in "${@:2}"; do
  grep -qxFe "$name" <<<"$names" || { echo "gpu-folders.sh: there is no plan '$name'" >&2; exit 2; }
done
[ $# -eq 1 ] || names=$(printf '%s\n' "${@:2}")

mkdir "$1"
out=$(cd "$1" && pwd)
work=$(mktemp -d)
# What braid says, warnings as well, is shown where the script ends by it: it may end while words go there.
exec 3>&2
trap '[ $? = 0 ] || cat "$work/said" >&3; rm -rf "$work"' EXIT
cd "$work"
: >said

write_text data.txt
cc -std=c11 -O1 -o samples "$root/tests/support/samples.c" -lm
./samples mlp.safetensors 64
./samples cnn.safetensors 1,28,28
./samples resnet-tiny.safetensors 3,16,16
./samples unet3d-tiny.safetensors 1,4,4,4 4,4,4
write_t5 t5 "$root"
write_mixtral mixtral-32 "$root"
for model in bert t5 vit; do cp "$root/tests/oracle/$model/samples.safetensors" $model.safetensors; done

# What braid takes for a MODEL of the lists.
model_of() {
  case $1 in
    mlp | cnn) echo "$root/examples/$1.json" ;;
    bert | gpt_oss | mixtral | vit | windows) echo "$root/tests/oracle/$1" ;;
    *) echo "$1" ;;
  esac
}

# MODEL FOLDER: puts what it trains on there, and the words that its program is run with, one a line.
add_data() {
  if [ -e "$1.safetensors" ]; then
    cp "$1.safetensors" "$2/data.safetensors"
    # Steeper, a few samples' losses jump, and roundings of bf16 grow with them.
    printf '%s\n' --data data.safetensors --lr 1e-4
  else
    cp data.txt "$2/data.txt"
    printf '%s\n' --data data.txt --tokenizer bytes --lr 1e-3
  fi >"$2/options"
  printf '%s\n' --steps "$steps" --seed 5 --warmup 2 >>"$2/options"
}

# PRECISION: sets what plan_model reads. `rounded` and `narrow` are bf16 without masters, with gradients in f32 and in bf16, by Adafactor.
set_precision() {
  precision=$1 masters='' gradients='' optimizer=adamw
  case $1 in
    rounded) precision=bf16 masters=none gradients=f32 optimizer=adafactor ;;
    rounded-adamw) precision=bf16 masters=none gradients=f32 ;;
    narrow) precision=bf16 masters=none gradients=bf16 optimizer=adafactor ;;
  esac
}

# MODEL PRECISION FOLDER: puts the losses there that one CPU rank computes, which is what every plan must.
expect() {
  local one=cpu-$1-$2 words
  if [ ! -e "$one" ]; then
    target=cpu plan_model "$one" "$(model_of "$1")" 1 1 1 8 1f1b - none -
    build "$one"
    add_data "$1" "$one"
    mapfile -t words <"$one/options"
    (cd "$one" && "$braid" run . "${words[@]}" --metrics expected.jsonl </dev/null)
  fi
  cp "$one/expected.jsonl" "$3/"
}

# Those that a step of is to be run under compute-sanitizer: between them, most kernels.
watched='gpt2 gpt2-fp8 mixtral-fp8 llama-narrow resnet-bf16'

# A line of the list: one folder; its program is run with the OPTION as well. Where the list leaves a choice to the planner, it
# chooses by this machine's rates: links that are fast beside the devices have it cut what GPUs would compute on every rank.
folder() {
  local model kind=${11} option=${12:-}
  model=$(model_of "$2")
  set_precision "$kind"
  {
    target=cuda plan_model "$1" "$model" "${@:3:8}"
    "$braid" compile "$model" --devices "$3" --plan "$1.json" --emit c -o "$out/$1"
    mkdir "$out/$1/check"
    expect "$2" "$kind" "$out/$1/check"
  } 2>said
  add_data "$2" "$out/$1/check"
  [ -z "$option" ] || echo "$option" >>"$out/$1/check/options"
  case " $watched " in *" $1 "*) : >"$out/$1/check/memcheck" ;; esac
  echo "$out/$1"
}

while read -r -a plan; do
  ! grep -qxFe "${plan[0]}" <<<"$names" || folder "${plan[@]}"
done <<<"$plans"
