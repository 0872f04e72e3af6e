# Shared by gpu-check.sh and gpu-bench.sh, which source it: their options, what this machine has, and how an emitted folder is
# built and its ranks run. They define `here`, the folder of this, `usage` and `absent`, which say what is wrong or missing and
# end the script, and `seconds`. help.sh beside it prints their help.

# Reads options in front of folders, each with a value: sets a variable of its name for --NAME, NAME one of those in `options`;
# `taken`: how many words that were.
read_options() {
  taken=0
  while [ $# -gt 0 ]; do
    case $1 in
      --help | -h) . "$here/help.sh" ;;
      -*)
        name=${1#--}
        case $name in '' | *[!a-z]*) name=none ;; esac
        case " $options " in *" $name "*) ;; *) usage "unknown option '$1'" ;; esac
        [ $# -ge 2 ] || usage "option $1 needs a value"
        eval "$name=\$2" ;;
      *) break ;;
    esac
    taken=$((taken + 2))
    shift 2
  done
  [ $# -gt 0 ] || usage "no folder is named"
}

# How many GPUs the programs will see: of those that are there CUDA_VISIBLE_DEVICES, where it is set, names some, by number or
# by identifier, up to the first that is none.
count_gpus() {
  if command -v nvidia-smi >/dev/null 2>&1; then
    present=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ')
  else
    present=$(find /dev -maxdepth 1 -name 'nvidia[0-9]*' | wc -l)
  fi
  if [ -z "${CUDA_VISIBLE_DEVICES+set}" ] || [ "$present" -eq 0 ]; then
    echo "$present"
  else
    echo "$CUDA_VISIBLE_DEVICES" | awk -F , -v present="$present" '
      { while (seen < NF && ($(seen + 1) ~ /^ *[0-9]+ *$/ ? $(seen + 1) + 0 < present : $(seen + 1) ~ /^ *(GPU|MIG)-/)) seen++ }
      END { print seen + 0 }'
  fi
}

# The folder of the library NAME that PyTorch brings; or nothing.
packaged() {
  torchrun=$(command -v torchrun) || return 0
  for at in "$(dirname "$(dirname "$torchrun")")"/lib/*/*-packages/nvidia/"$1"; do
    [ ! -d "$at" ] || { echo "$at" && return; }
  done
}

has_nccl() { printf '#include <nccl.h>\n' | cc ${NCCL_HOME:+"-I$NCCL_HOME/include"} -I"$CUDA_HOME/include" -E -x c - >/dev/null 2>&1; }

# Sets `gpus` and CUDA_HOME, and NCCL_HOME and CUDNN_HOME where these libraries come with PyTorch; or ends the script. Of cuDNN
# PyTorch's is preferred: what is measured against it then has the same version.
find_gpus() {
  gpus=$(count_gpus)
  [ "$gpus" -gt 0 ] || absent "this machine has no NVIDIA GPU, or none that its driver shows"
  if [ -z "${CUDA_HOME:-}" ]; then
    CUDA_HOME=/usr/local/cuda
    [ -x $CUDA_HOME/bin/ptxas ] || ! command -v ptxas >/dev/null 2>&1 || CUDA_HOME=$(dirname "$(dirname "$(command -v ptxas)")")
  fi
  [ -x "$CUDA_HOME/bin/ptxas" ] || absent "there is no CUDA toolkit in '$CUDA_HOME' (set CUDA_HOME)"
  : "${NCCL_HOME:=}" "${CUDNN_HOME:=$(packaged cudnn)}"
  has_nccl || NCCL_HOME=$(packaged nccl)
  has_nccl || absent "NCCL's header nccl.h is not installed (NCCL_HOME names its folder)"
  export CUDA_HOME NCCL_HOME CUDNN_HOME
}

# Programs are built for the GPUs at hand alone, where ARCHITECTURES names no others and the toolkit knows them.
choose_architectures() {
  [ -z "${ARCHITECTURES:-}" ] || return 0
  known=$("$CUDA_HOME/bin/ptxas" --help 2>/dev/null | grep -o 'sm_[0-9a-z]*' | sort -u)
  capabilities=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | tr -d . | sort -nu | tr '\n' ' ')
  for one in $capabilities; do
    echo "$known" | grep -qx "sm_$one" || return 0
  done
  ARCHITECTURES=${capabilities% }
  [ -z "$ARCHITECTURES" ] || export ARCHITECTURES
}

# Finds them, says which they are, and opens the folder `work`, which goes when the script ends. Sets `device` and `toolkit`.
open_gpus() {
  find_gpus
  choose_architectures
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  trap 'exit 1' INT TERM
  device=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -1)
  toolkit=$("$CUDA_HOME/bin/ptxas" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')
  echo "${device:-GPU} x $gpus, CUDA $toolkit${NCCL_HOME:+, NCCL in $NCCL_HOME}${CUDNN_HOME:+, cuDNN in $CUDNN_HOME}"
}

built='' jobs=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
# Builds the program of OUT, or sets verdict to why it does not build, and fails. The runtime's objects are those of `built`, the
# folder before, where its runtime is the same.
build_folder() {
  out=$1
  if [ -n "$built" ] && [ ! -e "$out/build" ] && diff -r "$built/runtime" "$out/runtime" >/dev/null 2>&1; then
    mkdir "$out/build" && cp -r "$built/build/runtime" "$out/build/"
  fi
  if ! make -s -j"$jobs" -C "$out" train >"$work/make" 2>&1; then
    verdict="does not build: $(grep -m 1 -i error "$work/make")"
    return 1
  fi
  built=$out
}

# Builds the programs of all OUT, several at once: build_folder then finds them built, or says why one does not build.
build_folders() {
  build_folder "$1" || :
  shift
  running=0
  for out; do
    (work=$(mktemp -d "$work/XXXXXX") jobs=1 && build_folder "$out") &
    running=$((running + 1))
    [ $running -lt "$jobs" ] || { wait; running=0; }
  done
  wait
}

# The ranks of a plan: stages times the sizes of the mesh.
ranks_of() {
  awk '/^ *"stages": [0-9]+,/ { ranks = $2 + 0 }
       /^ *"mesh": / { gsub(/[^0-9 ]/, " "); n = split($0, size, " "); for (i = 1; i <= n; i++) mesh = (mesh ? mesh : 1) * size[i] }
       END { print ranks * (mesh ? mesh : 1) }' "$1/plan.json"
}

# Runs OUT with its ranks and the options of OUT/check; the ranks' words are in $work/log.
#   run_ranks OUT RANKS [MORE-OPTIONS [COMMAND]]       the last two in words without spaces; MORE-OPTIONS take the place
#                                                      of the folder's of the same names; COMMAND runs the program
run_ranks() {
  out=$1 ranks=$2 more=${3:-} around=${4:-} rank=0 pids='' status=0 replaced=
  set --
  while IFS= read -r word; do
    case $word in --*) case " $more " in *" $word "*) replaced=yes ;; *) replaced= ;; esac ;; esac
    [ -n "$replaced" ] || set -- "$@" "$word" # an option, or its value
  done <"$out/check/options"
  share=0
  [ "$ranks" -le "$gpus" ] || share=1
  program=$(cd "$out" && pwd)/train
  while [ $rank -lt "$ranks" ]; do
    (cd "$out/check" && exec env RANK=$rank WORLD_SIZE="$ranks" LOCAL_RANK=$rank LOCAL_WORLD_SIZE="$ranks" \
      MASTER_ADDR=127.0.0.1 BRAID_JOB="$$.$out" BRAID_SHARE_GPU=$share BRAID_JOIN_SECONDS=120 timeout -k 10 "$seconds" \
      $around "$program" "$@" --metrics "$work/metrics.jsonl" --report "$work/report.json" $more) >"$work/log.$rank" 2>&1 </dev/null &
    pids="$pids $!"
    rank=$((rank + 1))
  done
  for pid in $pids; do
    wait "$pid"
    ended=$?
    [ $status -ne 0 ] || status=$ended
  done
  cat "$work"/log.* >"$work/log"
  return $status
}

# Says what attention and convolutions of the program that has run are done by, where that is not what the one before had: those
# that are not cuDNN's are slow, and nothing else tells.
libraries=''
say_libraries() {
  now=$(grep -E '^braid: (attention|convolutions|attention and convolutions) by ' "$work/log" | head -n 1)
  [ -z "$now" ] || [ "$now" = "$libraries" ] || echo "$now"
  libraries=${now:-$libraries}
}

# Why a program has ended: the last of its lines that tells no step and not what it uses.
last_words() { grep -vE '^(step |MFU: |braid: (attention|convolutions|attention and convolutions) by )' "$work/log" | tail -n 1; }

is_number() { case $1 in '' | *[!0-9.e+-]*) return 1 ;; esac; }
is_count() { case $1 in '' | *[!0-9]* | 0*) return 1 ;; esac; }
quoted() { printf '%s' "$1" | tr -d '\000-\037' | sed 's/[\\"]/\\&/g; s/^/"/; s/$/"/'; }
