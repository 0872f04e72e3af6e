#!/bin/sh
# Every generated kernel of a model's programs assembles for sm_80, sm_90 and sm_100, and none spills
# registers, but attention a few. In fp16, which differs from bf16 in conversions alone, that is asked of sm_80, where they are longest.
#   assembled.sh BRAID PTXAS EXAMPLE|PRESET|FILE [RANKS BATCH]
set -eu
braid=$(realpath "$1") ptxas=$2 model=$3 ranks=${4:-1} batch=${5:-8}
here=$(dirname "$(realpath "$0")")
. "$here/assemble.sh"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
[ ! -f "$model" ] || model=$(realpath "$model")
cd "$folder"

# An example's script makes its model; what it does with it is not asked for here.
optimizer=adamw example=$here/../../examples/$model/run.sh
if [ -f "$example" ]; then
  cat >making <<END
#!/bin/sh
case \$1 in init | import) exec "$braid" "\$@" ;; esac
END
  chmod +x making
  BRAID=./making sh "$example" 1
  model=model
  [ ! -f model.braid ] || model=model.braid optimizer=momentum
fi

failed=0
for precision in fp32 bf16 fp16; do
  "$braid" compile "$model" --cluster "h100:1x$ranks" --stages 1 --mesh "$ranks" --global-batch "$batch" \
    --optimizer "$optimizer" --precision "$precision" --emit c -o out
  architectures='80 90 100'
  [ "$precision" != fp16 ] || architectures=80
  assemble "$precision" "$architectures" || failed=1
  rm -r out
done
exit "$failed"
