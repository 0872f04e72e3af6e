#!/bin/bash
# Programs for GPUs, built against the fake device and trained on several ranks: their losses are the CPU's,
# their memory is what the plan says, and they give back all they took.
#   programs.sh BRAID LOWER COMPARE_WEIGHTS LIBRARIES MODEL [FOLDER]
# LIBRARIES: see open_device. FOLDER, when given, keeps what was built.
set -euo pipefail
. "$(dirname "$0")/device.sh"
compare=$(realpath "$3") model=$5
open_device "$1" "$2" "$4" "${6:-}"

# NAME RANKS STAGES MESH MICRO-BATCH SCHEDULE ZERO RECOMPUTE CUT, as in same_model.txt. The last is trained again.
plans_of() {
  case $1 in
  gpt2-tiny) cat <<'END' ;;
    one          1 1 1   8 1f1b  -  none -
    data         2 1 2   4 1f1b  -  none batch
    tensor       2 1 2   4 1f1b  -  none tensor
    sequence     2 1 2   8 1f1b  -  full sequence
    all          8 1 4x2 4 1f1b  1  full tensor,batch
    pipe-gpipe   4 2 2   2 gpipe -  full tensor
    deep         4 4 1   1 1f1b  -  full -
    pipe         4 2 2   2 1f1b  -  none batch
    zero-2       4 1 2x2 4 1f1b  2:0 none batch,tensor
    zero-3       4 2 2   4 1f1b  3:0 full batch
    zero-pipe    4 2 2   2 1f1b  0  none batch
    zero         2 1 2   4 1f1b  0  none batch
END
  llama-tiny) cat <<'END' ;;
    one          1 1 1   8 1f1b  -  none -
    pipe         4 2 2   4 gpipe -  full tensor
    groups       4 1 2x2 4 1f1b  0,1 none batch,tensor
    mixed        4 1 2x2 4 1f1b  0,1 none batch,mixed
    heads        4 1 2x2 4 1f1b  0  full tensor,group
    context      2 1 2   4 1f1b  -  full context
    all          8 2 2x2 4 1f1b  0  full batch,tensor
END
  gpt2-tiny-25h) cat <<'END' ;;
    one          1 1 1   8 1f1b  -  none -
    mixed        4 2 2   4 1f1b  -  full mixed
    tensor       3 1 3   4 1f1b  -  none tensor
END
  *mlp.json | *cnn.json) cat <<'END' ;;
    one          1 1 1   8 1f1b  -  -    -
    data         2 1 2   4 1f1b  0  -    -
    pipe         4 2 2   2 1f1b  -  -    -
END
  resnet-tiny) cat <<'END' ;;
    one          1 1 1   8 1f1b  -  none -
    pipe         4 2 2   2 1f1b  -  full -
END
  unet3d-tiny) cat <<'END' ;;
    one          1 1 1   8 1f1b  -  none -
    pipe         4 2 2   2 1f1b  -  full -
    skips        8 4 dp=2 2 1f1b -  none -
    skips-gpipe  8 4 dp=2 2 gpipe - full -
    deep         8 8 1   1 1f1b  -  none -
END
  */mixtral) cat <<'END' ;;
    one          1 1 1   8 1f1b  -  -    -
    wide         4 1 2x2 8 1f1b  -  none -
END
  */deepseek_v3) cat <<'END' ;;
    one          1 1 1    8 1f1b  -  none -
    heads        2 1 tp=2 4 1f1b  -  none -
END
  */windows) cat <<'END' ;;
    one          1 1 1    8 1f1b  -  none -
    heads        2 1 tp=2 4 1f1b  -  none -
    tokens       4 1 sp=4 8 1f1b  -  full -
END
  */gpt_oss) cat <<'END' ;;
    one          1 1 1    8 1f1b  -  none -
    heads        2 1 tp=2 8 1f1b  -  none -
    tokens       4 1 sp=4 8 1f1b  -  full -
END
  */gemma2) cat <<'END' ;;
    one          1 1 1    8 1f1b  -  none -
    pipe         4 2 tp=2 4 1f1b  -  full -
END
  */bert | */gpt_neox) cat <<'END' ;;
    one          1 1 1    8 1f1b  -  none -
    heads        2 1 tp=2 4 1f1b  -  none -
    tokens       4 1 sp=4 8 1f1b  -  none -
END
  */t5) cat <<'END' ;;
    one          1 1 1    8 1f1b  -  none -
    heads        2 1 tp=2 4 1f1b  -  none -
    tokens       4 1 sp=4 8 1f1b  -  none -
    skips        8 4 tp=2 2 1f1b  -  none -
    skips-gpipe  8 4 dp=2 2 gpipe 0  full -
    pipe         4 2 dp=2 2 1f1b  -  full -
END
  *primitives.json) cat <<'END' ;;
    one          1 1 1   8 1f1b  -  -    -
    wide         4 1 4   8 1f1b  -  none -
    pipe         4 2 2   2 1f1b  -  full -
END
  esac
}

data=text.txt
case $model in
*mlp.json) data=samples; write_samples samples 64 ;;
*cnn.json) data=samples; write_samples samples 1,28,28 ;;
resnet-tiny) data=samples; write_samples samples 3,16,16 ;;
unet3d-tiny) data=samples; write_samples samples 1,4,4,4 4,4,4 ;;
*primitives.json) data=samples; write_samples samples 8,6 8 ;;
*/t5)
  write_t5 t5 "$root"
  data=$model/samples.safetensors model=$PWD/t5
  ;;
*/bert) data=$model/samples.safetensors ;;
*) write_text text.txt ;;
esac
# Stages with messages that go over one: left alone, the planner may find others.
case $model in
unet3d-tiny) over='"first": 4, "stage": 2' ;;
*) over='"first": 3, "stage": 1' ;;
esac
echo "{\"braid_plan\": 1, \"stages\": 4, \"layers\": [{$over}]}" >skips.partial
steps=4
target=cpu
plan_model cpu "$model" 1 1 1 8 1f1b - none -
build cpu
train cpu 1 $steps

target=cuda
seed=0
while read -r name ranks stages mesh micro schedule zero recompute cut; do
  case $name in skips*) partial=skips.partial ;; *) partial= ;; esac
  plan_model "$name" "$model" "$ranks" "$stages" "$mesh" "$micro" "$schedule" "$zero" "$recompute" "$cut"
  build_fake "$name"
  case $name in
  skips*) grep -q 'bd_rt_send(rt, [23]' "$name"/stage[01].c || fail "$name sends nothing over a stage" ;;
  esac
  train_fake "$name" "$ranks" $steps $((seed++))
  check_device "$name"
  check_losses cpu "$name"
  check_update cpu "$name"
  last=$name
done < <(plans_of "$model")
# Collectives of one machine use windows, and what is gathered beside other work is left to copy engines.
for plan in zero zero-2 zero-3; do
  [ ! -d "$plan" ] || [ "$plan" = zero-2 ] || [ "$(count "$plan" copy_engine_collectives)" -gt 0 ] ||
    fail "$plan gathers without copy engines"
  [ ! -d "$plan" ] || [ "$(count "$plan" window_collectives)" = "$(count "$plan" collectives)" ] ||
    fail "$plan has collectives outside of windows"
done
# Of a pair none are, where such a gather may wait for ever.
if [ -d zero ]; then
  cp -r zero zero-pair
  (export BD_FAKE_NCCL=22907; train_fake zero-pair 2 $steps $((seed++)))
  check_bits zero zero-pair
  [ "$(count zero-pair copy_engine_collectives)" = 0 ] || fail "a pair gathers by copy engines of NCCL 2.29.7"
fi

# Another order of work gives the same bits, and so do passes that are not started as graphs.
cp -r "$last" "$last-again"
BRAID_GRAPHS=0 train_fake "$last-again" "$(ranks_of "$last")" $steps $((seed + 1))
check_bits "$last" "$last-again"
[ "$(count one graphs)" -ge $((steps - 2)) ] || fail "one launches $(count one graphs) graphs in $steps steps"
[ "$(count "$last-again" graphs)" = 0 ] || fail "$last-again launches graphs"

# Collectives of a layer in the one stream: the same bits.
for plan in all tensor zero-2 skips; do
  [ -d "$plan" ] && [ "$model" != unet3d-tiny ] || continue
  cp -r "$plan" "$plan-alone"
  (export BRAID_BESIDE=0; train_fake "$plan-alone" "$(ranks_of "$plan")" $steps $((seed++)))
  check_bits "$plan" "$plan-alone"
  [ "$(count "$plan" stream_changes)" -gt 0 ] || fail "$plan runs no collective beside products"
  [ "$(count "$plan-alone" stream_changes)" = 0 ] || fail "$plan-alone changes streams"
done

# Where messages go over stages gradients are summed while backward goes on, in every stage.
if [ "$model" = unet3d-tiny ]; then
  for plan in skips skips-gpipe; do
    train_fake "$plan" "$(ranks_of "$plan")" $steps $((seed++)) --profile "$plan/profile.json"
    sed -n 's/.*"name": "beside",.* "pid": \([0-9]*\),.*/\1/p' "$plan/profile.json" | sort -u >beside
    [ "$(wc -l <beside)" = 4 ] || fail "$plan does not sum gradients beside backward in all stages"
  done
fi

# Where a rank would have too many lines all have one for each direction, and nothing beside.
if [ "$model" = unet3d-tiny ]; then
  cp -r skips skips-few
  (export BRAID_LINES=2; train_fake skips-few "$(ranks_of skips)" $steps $((seed++)) --profile skips-few/profile.json)
  check_bits skips skips-few
  sed -n 's/.*"name": "beside",.* "pid": \([0-9]*\),.*/\1/p' skips-few/profile.json | sort -u >beside
  [ "$(tr '\n' ' ' <beside)" = "1 3 " ] || fail "skips-few runs work beside what stages 0 and 2 send over a stage"
fi

# With a driver under which NCCL would run all communicators one after another, stages still exchange messages, and
# nothing runs beside: the same bits, and updated weights are gathered at once.
if [ "$model" = gpt2-tiny ] || [ "$model" = unet3d-tiny ]; then
  for plan in pipe tensor deep zero zero-pipe; do
    [ -d "$plan" ] || continue
    cp -r "$plan" "$plan-old"
    (export BD_FAKE_DRIVER=12020 BD_FAKE_TOOLKIT=12080; train_fake "$plan-old" "$(ranks_of "$plan")" $steps $((seed++)))
    check_bits "$plan" "$plan-old"
  done
  [ ! -d tensor ] || [ "$(count tensor-old stream_changes)" = 0 ] || fail "tensor-old runs collectives beside products"
fi

# Another optimizer: sums over the rows and columns of weights in parts.
if [ "$model" = gpt2-tiny-25h ]; then
  optimizer=adafactor target=cpu
  plan_model cpu-factors "$model" 1 1 1 8 1f1b - none -
  build cpu-factors
  train cpu-factors 1 $steps
  target=cuda
  plan_model factors "$model" 3 1 3 4 1f1b - none mixed
  build_fake factors
  train_fake factors 3 $steps $((seed++))
  check_device factors
  check_losses cpu-factors factors
  check_update cpu-factors factors
  optimizer=adamw
fi

# In halves as well, on one rank and under the last plan above; those that round the other way part losses.
# PRECISION BOUND LIKE: the bound from the CPU's f32; of the devices' losses from the CPU's in halves.
check_halves() {
  local name=$1${masters:+-$masters}${gradients:+-narrow}
  precision=$1
  target=cpu
  plan_model cpu-$name "$model" 1 1 1 8 1f1b - none -
  build cpu-$name
  train cpu-$name 1 $steps
  check_losses cpu cpu-$name "$2"
  target=cuda
  for plan in one "$last"; do
    read -r _ ranks stages mesh micro schedule zero recompute cut < <(plans_of "$model" | grep "^ *$plan ")
    plan_model "$plan-$name" "$model" "$ranks" "$stages" "$mesh" "$micro" "$schedule" "$zero" "$recompute" "$cut"
    build_fake "$plan-$name"
    train_fake "$plan-$name" "$ranks" $steps $((seed++))
    check_device "$plan-$name"
    check_losses "cpu-$name" "$plan-$name" "$3"
  done
}
check_halves bf16 1e-2 5e-3

# Attention without dropout runs by cuDNN, in one piece, by samples or by heads: the same bits. Generated kernels do it
# where it does not fit, where cuDNN is too old, where ranks have different ones, and on demand.
# NAME LIKE LINE [VARIABLE=VALUE]...: trains LIKE again under the settings, and looks for the line that says how.
attend() {
  local name=$1 like=$2 line=$3
  shift 3
  cp -r "$like" "$name"
  cp "$like.ranks" "$name.ranks"
  export "$@"
  train_fake "$name" "$(ranks_of "$like")" $steps $((seed++)) ${ORDER:-}
  unset "${@%%=*}"
  grep -q "$line" "$name/log.0" || fail "$name does not say: $line"
  check_device "$name"
  check_losses "$like" "$name" 1e-3
}
fills() { sed 's/.*"fills": \([0-9]*\).*/\1/' "$1/device.0"; }
by_cudnn() { sed 's/.*"dnn": \([0-9]*\).*/\1/' "$1/device.0"; }
if [ -e "${libraries[-1]##*rpath,}/libcudnn.so.9" ] && [[ $model = */mixtral ]]; then
  grep -q "attention by cuDNN 9.19.0$" one-bf16/log.0 || fail "cuDNN is not used"
  attend samples one-bf16 "attention by cuDNN 9.19.0$" BD_FAKE_CUDNN_GROWS=200
  attend heads one-bf16 "attention by cuDNN 9.19.0$" BD_FAKE_CUDNN_GROWS=800
  check_bits one-bf16 samples
  check_bits one-bf16 heads
  [ "$(by_cudnn one-bf16)" -lt "$(by_cudnn samples)" ] && [ "$(by_cudnn samples)" -lt "$(by_cudnn heads)" ] ||
    fail "gradients of attention are not run in parts"
  attend any one-bf16 "attention by cuDNN 9.19.0$" ORDER=--any-order
  [ "$(by_cudnn any)" = $(($(by_cudnn one-bf16) + 1)) ] || fail "--any-order has other parts, or is not tried once"
  attend cleared one-bf16 "attention by cuDNN 9.19.0$" ORDER=--any-order BD_FAKE_CUDNN_CLEARS=1
  check_bits any cleared
  [ "$(fills cleared)" -lt "$(fills any)" ] || fail "what the library sets to 0 is set to 0 before"
  attend half one-bf16 "for 1 of 2 shapes, .* bytes of workspace" BD_FAKE_CUDNN_GROWS=1600
  attend refused one-bf16 "for 0 of 2 shapes, .* CUDNN_STATUS_NOT_SUPPORTED" BD_FAKE_CUDNN_REFUSES=1
  attend old one-bf16 "generated kernels: cuDNN 9.10 is older than 9.16" BD_FAKE_CUDNN_VERSION=91000
  attend unlike "$last-bf16" "rank 0 has cuDNN 9.19.0, rank 2 has cuDNN 9.18.0" BD_FAKE_CUDNN_OLDER=2
  attend off "$last-bf16" "generated kernels: BRAID_CUDNN=0" BRAID_CUDNN=0
  for name in refused old unlike off; do
    [ "$(by_cudnn "$name")" = 0 ] || fail "$name uses cuDNN"
  done
fi

# Parts of queries that see the keys up to their own, too.
if [ -e "${libraries[-1]##*rpath,}/libcudnn.so.9" ] && [[ $model = */gpt_neox ]]; then
  grep -q '\.tq = 8, \.tk = 32,' tokens-bf16/stage0.c || fail "tokens has no parts of queries"
  grep -q "attention by cuDNN 9.19.0$" tokens-bf16/log.0 || fail "tokens does not use cuDNN"
  attend off tokens-bf16 "generated kernels: BRAID_CUDNN=0" BRAID_CUDNN=0
  [ "$(by_cudnn off)" = 0 ] && [ "$(by_cudnn tokens-bf16)" -gt 0 ] || fail "cuDNN runs when it is off, or not when it is on"
fi

# Windows as well, where parts of the queries see none of some keys before them.
if [ -e "${libraries[-1]##*rpath,}/libcudnn.so.9" ] && [[ $model = */windows ]]; then
  grep -q '\.tq = 36, \.tk = 144,' tokens-bf16/stage0.c || fail "tokens has no parts of queries"
  grep -q '\.window = 40' tokens-bf16/stage0.c || fail "tokens has no window"
  for name in one-bf16 tokens-bf16; do
    grep -q "attention by cuDNN 9.19.0$" "$name/log.0" || fail "$name does not use cuDNN"
  done
  attend off tokens-bf16 "generated kernels: BRAID_CUDNN=0" BRAID_CUDNN=0
  [ "$(by_cudnn off)" = 0 ] && [ "$(by_cudnn tokens-bf16)" -gt 0 ] || fail "cuDNN runs when it is off, or not when it is on"
fi

# And sinks, which are added to what cuDNN makes.
if [ -e "${libraries[-1]##*rpath,}/libcudnn.so.9" ] && [[ $model = */gpt_oss ]]; then
  for name in one-bf16 tokens-bf16; do
    grep -q 'bd_rt_attend_with_sinks(rt' "$name/stage0.c" || fail "$name does not ask cuDNN"
    grep -q "attention by cuDNN 9.19.0$" "$name/log.0" || fail "$name does not use cuDNN"
  done
  attend off tokens-bf16 "generated kernels: BRAID_CUDNN=0" BRAID_CUDNN=0
  [ "$(by_cudnn off)" = 0 ] && [ "$(by_cudnn tokens-bf16)" -gt 0 ] || fail "cuDNN runs when it is off, or not when it is on"
fi

# Capped scores.
if [ -e "${libraries[-1]##*rpath,}/libcudnn.so.9" ] && [[ $model = */gemma2 ]]; then
  grep -q '\.softcap = 0\.7' one-bf16/stage0.c || fail "scores are not capped"
  grep -q "attention by cuDNN 9.19.0$" one-bf16/log.0 || fail "one does not use cuDNN"
  attend off one-bf16 "generated kernels: BRAID_CUDNN=0" BRAID_CUDNN=0
  [ "$(by_cudnn off)" = 0 ] && [ "$(by_cudnn one-bf16)" -gt 0 ] || fail "cuDNN runs when it is off, or not when it is on"
fi

# Padding is told apart by elements that heads have besides, for cuDNN as for generated kernels.
if [ -e "${libraries[-1]##*rpath,}/libcudnn.so.9" ] && [[ $model = */bert ]]; then
  for name in one-bf16 "$last-bf16"; do
    grep -q "attention by cuDNN 9.19.0$" "$name/log.0" || fail "$name does not use cuDNN"
    [ "$(by_cudnn "$name")" -gt 0 ] || fail "$name runs nothing by cuDNN"
  done
  grep -q '\.heads = 4, .*\.d = 16,' one-bf16/stage0.c || fail "heads of 8 are not padded"
  attend off one-bf16 "generated kernels: BRAID_CUDNN=0" BRAID_CUDNN=0
  [ "$(by_cudnn off)" = 0 ] || fail "off uses cuDNN"
fi

# Convolutions without cuDNN, and by one that wants more workspace than there is for all images at once.
check_said() { grep -q "$2" "$1/log.0" || fail "$1 does not say: $2"; }
case $model in resnet-tiny | unet3d-tiny)
  BRAID_CUDNN=0 train_fake one-bf16 1 $steps $((seed++))
  check_said one-bf16 "convolutions by the program's own kernels: BRAID_CUDNN=0"
  check_losses cpu-bf16 one-bf16 5e-3
  BD_FAKE_CUDNN_GROWS=3000 train_fake one-bf16 1 $steps $((seed++))
  check_said one-bf16 "convolutions by cuDNN"
  check_losses cpu-bf16 one-bf16 5e-3
  ;;
esac

# SETTING: of the environment, under which products do less besides, and kernels more.
launches() { sed 's/.*"kernels": \([0-9]*\).*/\1/' "$1/device.0"; }
check_apart() {
  rm -rf apart
  cp -r one-bf16 apart
  (export "$1"; BRAID_GRAPHS=0 train_fake apart 1 $steps 0)
  check_losses cpu-bf16 apart 5e-3
  [ "$(launches apart)" -gt "$(launches one-bf16-again)" ] || fail "$1 adds no kernels"
}

# What products do besides is computed again to the same bits, and done by kernels where the library cannot.
if [ "$model" = gpt2-tiny ]; then
  precision=bf16
  plan_model again-bf16 "$model" 1 1 1 8 1f1b - full -
  build_fake again-bf16
  train_fake again-bf16 1 $steps $((seed++))
  check_bits one-bf16 again-bf16
  cp -r one-bf16 one-bf16-again
  BRAID_GRAPHS=0 train_fake one-bf16-again 1 $steps $((seed++))
  check_bits one-bf16 one-bf16-again
  check_apart BRAID_EPILOGUES=0
  check_apart BD_FAKE_NO_EPILOGUE=164 # GELU_AUX_BIAS, which it calls invalid
  check_apart BD_FAKE_NO_EPILOGUE=4 # BIAS, which it calls unsupported
  check_apart BD_FAKE_CAPABILITY=80
fi

# In fp8 where the dimensions allow it: of experts the products of all at once, sample by sample, with weights that are rounded for
# the first.
if [ "$model" = gpt2-tiny ]; then
  check_halves fp8 5e-3 1e-3
  # Some of an op's products in 8 bits, some in bf16, with what those do besides.
  for plan in one "$last"; do
    name=$plan-some
    sed '/"result": "\(c_fc\|mlp\)_product"/s/"cuts"/"bf16": ["forward", "input"], "cuts"/; /"result": "[qk]_product"/s/"cuts"/"bf16": ["weight"], "cuts"/' \
      "$plan-fp8.json" >"$name.json"
    cp "$plan-fp8.model" "$name.model"
    cp "$plan-fp8.ranks" "$name.ranks"
    build_fake "$name"
    [ "$(grep -c '\.f8 = ' "$name/stage0.c")" -lt "$(grep -c '\.f8 = ' "$plan-fp8/stage0.c")" ] || fail "$name has nothing in bf16"
    grep -q 'BD_RT_EPILOGUE_GELU,' "$name/stage0.c" || fail "$name takes no GELU with a product of bf16"
    train_fake "$name" "$(ranks_of "$name")" $steps $((seed++))
    check_device "$name"
    check_losses cpu-fp8 "$name" 2e-3
  done
fi
if [[ $model = */mixtral ]]; then
  write_mixtral grains/mixtral "$root"
  model=$PWD/grains/mixtral precision=fp32 target=cpu
  rm -rf cpu
  plan_model cpu "$model" 1 1 1 8 1f1b - none -
  build cpu
  train cpu 1 $steps
  check_halves fp8 5e-3 2e-4
  grep -A6 '\.batch = 4, .m = 32' one-fp8/stage0.c | grep -q '\.f8_kept = {0, b > 0}' || fail "weights of experts are rounded again"
  # Of a batch that the library has no algorithm for, one product after another: the same bits. Of none of them: what to do.
  cp -r one-fp8 one-by-one
  (export BD_FAKE_NO_F8=2; train_fake one-by-one 1 $steps $((seed++)))
  check_bits one-fp8 one-by-one
  [ "$(count one-by-one matmuls)" -gt "$(count one-fp8 matmuls)" ] || fail "batches in 8 bits are not taken apart"
  (export BD_FAKE_NO_F8=2; train_fake one-by-one 1 $steps $((seed++)) --tune "$PWD/tuned.json")
  check_losses one-fp8 one-by-one 1e-4
  export BD_FAKE_NO_F8=1
  start_fake one-fp8 1 $((seed++)) --steps 1
  await_fake
  unset BD_FAKE_NO_F8
  [ "${statuses[0]}" = 14 ] || fail "a product in 8 bits without algorithm ends with ${statuses[0]}"
  grep -q 'no algorithm for a product in fp8 of [0-9]* rows, [0-9]* columns and [0-9]* terms: name its op in "bf16" of the plan' one-fp8/log.0 ||
    fail "it is not told what to do without: $(tail -1 one-fp8/log.0)"
fi

# In products of rows in groups, too.
if [[ $model = */mixtral ]]; then
  write_sorted sorted/mixtral "$root"
  model=$PWD/sorted/mixtral precision=fp32 target=cpu steps=2
  rm -rf cpu cpu-fp8 one-fp8 "$last-fp8"
  plan_model cpu "$model" 1 1 1 8 1f1b - none -
  build cpu
  train cpu 1 $steps
  check_halves fp8 5e-3 2e-4
  for plan in one-fp8 "$last-fp8"; do
    grep -A4 bd_rt_grouped_weights "$plan/stage0.c" | grep -q '\.f8 = {BD_RT_E4M3, BD_RT_E5M2}, \.f8_room = ' || fail "$plan has no groups in 8 bits"
  done
fi

# Without masters the devices round by the CPU's random bits.
if [ "$model" = llama-tiny ]; then
  masters=none
  check_halves bf16 1e-2 1e-3
  gradients=bf16 check_halves bf16 1e-2 1e-3
  masters=
  cp -r one-bf16-none rounded-again # the step's number reaches kernels in graphs
  BRAID_GRAPHS=0 train_fake rounded-again 1 $steps $((seed++))
  check_bits one-bf16-none rounded-again
fi

# One model says enough of fp16; and of TF32, whose losses are others, and close.
if [ "$model" = llama-tiny ]; then
  check_halves fp16 2e-4 2e-4
  cut -d, -f2 one/metrics.jsonl >f32.losses
  train_fake one 1 $steps $((seed++)) --tf32
  check_losses cpu one 2e-3
  cut -d, -f2 one/metrics.jsonl | cmp -s - f32.losses && fail "--tf32 changes nothing"
fi
[ -z "$(ls shared)" ] || fail "communicators were left behind: $(ls shared)"
finish
