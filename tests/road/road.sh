# Steps shared by the road tests: plan, build, train, compare. Sourced with $braid and $here set. A failed
# comparison is counted and told; a failed step ends the test.
failures=0
fail() {
  echo "FAIL: $*"
  failures=$((failures + 1))
}

finish() {
  [ "$failures" = 0 ] || { echo "$failures comparisons failed"; exit 1; }
  echo "all agree"
}

# Enters an empty working folder: the one given, which is kept at the end, or one that is removed.
open_folder() {
  local folder=${1:-$(mktemp -d)}
  [ -n "$1" ] || trap "rm -rf $folder" EXIT
  mkdir -p "$folder"
  cd "$folder"
  [ -e .braid-road ] || [ -z "$(ls -A)" ] || { echo "$folder is not empty"; exit 1; }
  rm -rf ./*
  : >.braid-road
}

# A fixed text of small words, 20000 bytes.
write_text() { awk -f "$here/../support/words.awk" >"$1"; }

# NAME HEADS KEY-VALUE-HEADS TOKENS DROPOUT: a Llama of so many heads, on sequences of so many tokens, whose attention drops.
write_llama() {
  mkdir "$1"
  sed -E "s/(\"num_attention_heads\":) [0-9]+/\1 $2/; s/(\"num_key_value_heads\":) [0-9]+/\1 $3/
    s/(\"max_position_embeddings\":) [0-9]+/\1 $4/; s/(\"attention_dropout\":) [0-9.]+/\1 $5/" \
    "$here/../oracle/llama/config.json" >"$1/config.json"
  grep -q "\"num_key_value_heads\": $3,\$" "$1/config.json" && grep -q "\"attention_dropout\": $5,\$" "$1/config.json"
}

# FOLDER ROOT: the model of tests/oracle/t5 with dropout. Its samples lie there.
write_t5() {
  mkdir -p "$1"
  sed 's/"dropout_rate": 0.0/"dropout_rate": 0.1/' "$2/tests/oracle/t5/config.json" >"$1/config.json"
}

# FOLDER ROOT: the model of tests/oracle/mixtral with samples of 32 tokens, for all of which each expert has places, so that its
# products are in 8 bits and experts can be cut over ranks.
write_mixtral() {
  mkdir -p "$1"
  sed 's/"max_position_embeddings": 24/"max_position_embeddings": 32, "expert_capacity": 32/' "$2/tests/oracle/mixtral/config.json" >"$1/config.json"
}

# FOLDER ROOT: one that drops no token, whose experts' rows begin at multiples of 16, of so many features that halves of them
# are in grains, too.
write_sorted() {
  mkdir -p "$1"
  sed 's/"max_position_embeddings": 24/"max_position_embeddings": 256/; s/"intermediate_size": 48/"intermediate_size": 64/' \
    "$2/tests/oracle/mixtral/config.json" >"$1/config.json"
}

# [FILE]: the lines of a list of plans, without its comments.
read_plans() { grep -vE '^ *(#|$)' "$@"; }

# NAME MODEL RANKS STAGES MESH MICRO-BATCH SCHEDULE ZERO RECOMPUTE CUT -> NAME.json, in $precision with $masters and $gradients, for $optimizer, of what the file $partial leaves open
# Beside a cut, ZERO is an axis that splits the optimizer's states, or `2:AXIS` or `3:AXIS` (see spread.awk);
# without one, a pin.
plan_model() {
  local name=$1 zero=$8 cut=${10} spread=- pins=()
  case $zero in 2:* | 3:*) spread=$zero zero=- ;; esac
  [ "$4" = - ] || pins+=(--stages "$4")
  case $5 in
    -) ;;
    *=*) pins+=(--pin "$5") ;; # degrees, which make the mesh
    *) pins+=(--mesh "$5") ;;
  esac
  [ "$6" = - ] || pins+=(--micro-batch "$6")
  [ "$7" = - ] || pins+=(--schedule "$7")
  [ "$9" = - ] || pins+=(--recompute "$9")
  [ "$cut" != - ] || [ "$zero" = - ] || pins+=(--zero "$zero")
  "$braid" compile "$2" --devices "$3" --target "${target:-cpu}" --precision "${precision:-fp32}" \
    ${masters:+--masters "$masters"} ${gradients:+--gradients "$gradients"} --optimizer "${optimizer:-adamw}" --global-batch "${batch:-8}" \
    ${partial:+--partial "$partial"} "${pins[@]}" --emit plan -o "$name.json"
  echo "$2" >"$name.model"
  echo "$3" >"$name.ranks"
  [ "$cut" = - ] && return
  awk -v cut="${cut%/*}" -v zero="${zero#-}" -f "$here/cut.awk" "$name.json" >"$name.cut"
  if [ "$cut" != "${cut%/*}" ]; then
    awk -v cut="${cut#*/}" -v zero="${zero#-}" -f "$here/cut.awk" "$name.json" >"$name.second"
    awk -f "$here/change.awk" "$name.second" "$name.cut" >"$name.changed"
    mv "$name.changed" "$name.cut"
  fi
  if [ "$spread" = - ]; then
    mv "$name.cut" "$name.json"
  else
    awk -v level="${spread%:*}" -v axis="${spread#*:}" -f "$here/spread.awk" "$name.cut" >"$name.json"
  fi
}

ranks_of() { cat "$1.ranks"; }

# Builds the folder NAME from NAME.json. The runtime's objects, the same in every folder, are built once.
build() {
  "$braid" compile "$(cat "$1.model")" --devices "$(ranks_of "$1")" --plan "$1.json" --emit c -o "$1"
  if [ -d objects ]; then
    mkdir -p "$1/build"
    cp -r objects "$1/build/runtime"
    find "$1/build/runtime" -name '*.o' -exec touch {} +
  fi
  make -s -j2 -C "$1" train
  [ -d objects ] || cp -r "$1/build/runtime" objects
}

# NAME RANKS STEPS OPTION...
train() {
  mpirun --allow-run-as-root --oversubscribe -n "$2" "$1/train" --steps "$3" --data "${data:-text.txt}" --seed 1 \
    --metrics "$1/metrics.jsonl" --report "$1/report.json" --save "$1/weights.safetensors" "${@:4}" 2>"$1/log" </dev/null ||
    { echo "FAIL: $1 does not train:"; tail -5 "$1/log"; exit 1; }
}

# LIKE NAME [BOUND]: every loss of NAME within the bound of LIKE's, relatively; 2e-5 is that of fp32.
check_losses() {
  awk -v like="$1" -v name="$2" -v bound="${3:-2e-5}" '
    { loss = $0; sub(/.*"loss": /, "", loss); sub(/,.*/, "", loss) }
    FNR == NR { expected[FNR] = loss; steps = FNR; next }
    { gap = loss / expected[FNR] - 1; if (gap < 0) gap = -gap; if (!(gap <= worst)) { worst = gap; at = FNR } }
    END {
      printf "%-16s %d steps, loss %s, largest difference from %s %.2g\n", name, FNR, loss, like, worst
      exit !(FNR == steps && steps > 1 && worst <= bound)
    }' "$1/metrics.jsonl" "$2/metrics.jsonl" || fail "$2 departs from $1"
}

# STEPS PLANS: of lines NAME MODEL RANKS .. each plan in fp32 and in bf16, whose losses are those of the plan MODEL-rank.
train_in_both() {
  local name model ranks rest bound precision
  for precision in fp32 bf16; do
    bound=2e-5
    [ $precision = fp32 ] || bound=1e-3
    while read -r name model ranks rest; do
      read -ra rest <<<"$rest"
      plan_model "$name-$precision" "$model" "$ranks" "${rest[@]}"
      build "$name-$precision"
      train "$name-$precision" "$ranks" "$1"
      check_memory "$name-$precision"
      [ "$name" = "$model-rank" ] || check_losses "$model-rank-$precision" "$name-$precision" $bound
    done <<<"$2"
  done
}

# SPLIT NAME..: each of these plans, in fp32, splits attention so.
check_attention_split() {
  local name
  for name in "${@:2}"; do
    grep -q "\"op\": \"attention\".*\"split\": \"$1\"" "$name-fp32.json" || fail "$name does not split attention over $1"
  done
}

# LIKE NAME BOUND: so is the mean of all losses.
check_mean() {
  awk -v name="$2" -v bound="$3" '
    { loss = $0; sub(/.*"loss": /, "", loss); sub(/,.*/, "", loss) }
    FNR == NR { expected += loss; next }
    { sum += loss }
    END {
      gap = sum / expected - 1
      printf "%-16s mean loss %s, difference %.2g\n", name, sum / FNR, gap
      exit !(gap <= bound && gap >= -bound)
    }' "$1/metrics.jsonl" "$2/metrics.jsonl" || fail "the mean loss of $2 departs from $1"
}

# The same losses, gradient norms and final weights, bit for bit.
check_bits() {
  local first=$1 name
  for name in "${@:2}"; do
    cut -d, -f1-3 "$first/metrics.jsonl" | cmp -s - <(cut -d, -f1-3 "$name/metrics.jsonl") ||
      fail "$name and $first differ in the bits of their losses or gradient norms"
    cmp -s "$first/weights.safetensors" "$name/weights.safetensors" ||
      fail "$name and $first differ in the bits of their weights"
  done
}

# The arena of every rank is what braid explain says, and a rank's peak is at most 128 MiB above it.
check_memory() {
  awk -v name="$1" '
    { gsub(/"/, ""); gsub(/[,{}]/, " ") }
    FNR == NR { for (i = 1; i < NF; i++) if ($i == "arena_bytes:") planned[stages++] = $(i + 1); next }
    / rank: / {
      for (i = 1; i < NF; i++) value[$i] = $(i + 1)
      ranks++
      if (value["arena_bytes:"] != planned[value["stage:"]]) {
        printf "rank %d: the arena has %d bytes, braid explain says %d\n", value["rank:"], value["arena_bytes:"],
               planned[value["stage:"]]
        bad = 1
      }
      if (value["peak_rss_bytes:"] > value["arena_bytes:"] + 134217728) {
        printf "rank %d: %d bytes at its peak, the arena has %d\n", value["rank:"],
               value["peak_rss_bytes:"], value["arena_bytes:"]
        bad = 1
      }
    }
    END { exit bad || !ranks }' <("$braid" explain "$1/plan.json" --json) "$1/report.json" ||
    fail "$1 does not keep to its memory"
}

# NAME STRATEGY VALUE -> how its dimensions lie on the mesh
form_of() {
  awk -v strategy="\"$2\"" -v value="\"$3\"" '
    /"name": / { inside = index($0, strategy) }
    inside && /"value": / && index($0, value) { sub(/.*"dims": /, ""); sub(/, "saved".*/, ""); print; exit }
  ' "$1.json"
}

# NAME STRATEGY VALUE STRATEGY VALUE: what one function hands on, the next takes in another form.
check_change() {
  [ "$(form_of "$1" "$2" "$3")" != "$(form_of "$1" "$4" "$5")" ] ||
    fail "$1 does not change the form of activations between $2 and $4"
}

# WHAT PATTERN: some plan that was built has a line of this pattern.
check_covered() {
  grep -q -- "$2" ./*/plan.json || fail "the set does not show that $1"
}

# MODEL STEPS; standard input: NAME RANKS STAGES MESH MICRO-BATCH RECOMPUTE a line, `one` first. Every plan trains within
# its memory, with the losses of `one`.
train_plans() {
  local name ranks stages mesh micro recompute
  while read -r name ranks stages mesh micro recompute; do
    plan_model "$name" "$1" "$ranks" "$stages" "$mesh" "$micro" - - "$recompute" -
    build "$name"
    train "$name" "$ranks" "$2"
    check_memory "$name"
    [ "$name" = one ] || check_losses one "$name"
  done
}

# Plans of gpt2-tiny in $precision with $masters and $gradients: one rank within BOUND of the losses of LIKE, over all steps, the
# others within 2e-4 of that one's, and the same bits where depth, recompute and who updates what are all that differs.
#   train_without_masters LIKE BOUND
train_without_masters() {
  local name ranks stages mesh micro schedule zero recompute cut count like bound
  # NAME RANKS STAGES MESH MICRO-BATCH SCHEDULE ZERO RECOMPUTE CUT; see same_model.txt.
  while read -r name ranks stages mesh micro schedule zero recompute cut; do
    plan_model "$name" gpt2-tiny "$ranks" "$stages" "$mesh" "$micro" "$schedule" "$zero" "$recompute" "$cut"
    build "$name"
    case $name in one) count=$steps like=$1 bound=$2 ;; *) count=20 like=one bound=2e-4 ;; esac
    train "$name" "$ranks" $count
    check_memory "$name"
    mkdir -p "$name.expected"
    head -$count "$like/metrics.jsonl" >"$name.expected/metrics.jsonl"
    check_losses "$name.expected" "$name" $bound
  done <<'END'
  one     1 1 1   8 1f1b  -   none -
  depth-1 2 1 2   2 1f1b  -   none batch
  zero-1  2 1 2   2 1f1b  0   full batch
  depth-2 4 2 2   2 gpipe 0   full batch
  tensor  2 1 2   8 1f1b  -   none tensor
  zero-2  4 1 2x2 4 1f1b  2:0 none batch,tensor
  zero-3  4 2 2   4 1f1b  3:0 full batch
  mixed   8 2 2x2 4 gpipe 0   full batch,mixed
END
  check_bits depth-1 zero-1 depth-2
}
