#!/bin/bash
# Models of images and volumes under several plans: values that skip over calls cross stages, one of them over
# stages that have no use for them; the losses agree with one rank's, and memory is what the plan says. In bf16
# and fp16 they are close to those of fp32, alike under every plan, and the same bits at another depth.
#   images.sh BRAID [FOLDER]
set -euo pipefail
braid=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
. "$here/road.sh"
open_folder "${2:-}"
cc -std=c11 -O1 -Wall -Wextra -Werror -o samples_tool "$here/../support/samples.c" -lm
./samples_tool images 3,16,16
./samples_tool volumes 1,4,4,4 4,4,4

# NAME MODEL RANKS STAGES MESH MICRO-BATCH SCHEDULE ZERO RECOMPUTE CUT, as in same_model.txt.
plans=$(grep -vE '^ *(#|$)' <<'END'
  resnet          resnet-tiny   1 1 1   8 1f1b  -  none -
  resnet-free     resnet-tiny   4 - -   - -     -  -    -
  resnet-pipeline resnet-tiny   4 2 2   2 1f1b  -  full -
  unet            unet3d-tiny   1 1 1   8 1f1b  -  none -
  unet-free       unet3d-tiny   4 - -   - -     -  -    -
  unet-wide       unet3d-tiny   4 1 4   8 1f1b  -  none -
  unet-pipeline   unet3d-tiny   4 4 1   1 1f1b  -  none -
  unet-deep       unet3d-tiny   8 4 2   2 gpipe -  full -
END
)

while read -r name model ranks stages mesh micro schedule zero recompute cut; do
  plan_model "$name" "$model" "$ranks" "$stages" "$mesh" "$micro" "$schedule" "$zero" "$recompute" "$cut"
  case $model in resnet-tiny) like=resnet data=images ;; *) like=unet data=volumes ;; esac
  case $name in unet-pipeline | unet-deep) sed -i -E '/"up0\./s/"stage": 1/"stage": 2/' "$name.json" ;; esac
  build "$name"
  train "$name" "$ranks" 10
  check_memory "$name"
  [ "$name" = "$like" ] || check_losses "$like" "$name"
done <<<"$plans"

# In halves: NAME MODEL RANKS STAGES MESH MICRO-BATCH SCHEDULE ZERO RECOMPUTE CUT PRECISION LIKE BOUND.
while read -r name model ranks stages mesh micro schedule zero recompute cut precision like bound; do
  plan_model "$name" "$model" "$ranks" "$stages" "$mesh" "$micro" "$schedule" "$zero" "$recompute" "$cut"
  case $model in resnet-tiny) data=images ;; *) data=volumes ;; esac
  build "$name"
  train "$name" "$ranks" 10
  check_memory "$name"
  check_losses "$like" "$name" "$bound"
done < <(grep -vE '^ *(#|$)' <<'END'
  resnet-bf16     resnet-tiny   1 1 1   8 1f1b  -  none -  bf16 resnet      1e-2
  resnet-bf16-2   resnet-tiny   2 1 2   2 1f1b  -  none -  bf16 resnet-bf16 1e-3
  resnet-bf16-4   resnet-tiny   4 2 2   2 1f1b  -  full -  bf16 resnet-bf16 1e-3
  resnet-fp16     resnet-tiny   2 1 2   4 1f1b  -  none -  fp16 resnet      2e-3
  unet-bf16       unet3d-tiny   1 1 1   8 1f1b  -  none -  bf16 unet        1e-2
  unet-bf16-4     unet3d-tiny   4 1 4   8 1f1b  -  none -  bf16 unet-bf16   1e-3
END
)
check_bits resnet-bf16-2 resnet-bf16-4

# The skip of the outer level goes past a stage: what down0 makes on the first stage is read by up0 on the third.
for name in unet-pipeline unet-deep; do
  "$braid" compile unet3d-tiny --devices "$(ranks_of "$name")" --plan "$name.json" --emit spmd -o "$name.spmd"
  # send(%x) {to=2, tag=1} stage 0
  awk '/ send\(/ { split($0, to, "to="); if (to[2] - $NF > 1) far = 1 } END { exit !far }' "$name.spmd" ||
    fail "$name sends nothing past a stage"
done
finish
