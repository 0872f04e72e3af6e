#!/bin/sh
# Layer graphs of unlike layers: cost, bound, gap and seconds of `braid solve` (docs/benchmarks/solve.md).
# Usage: scripts/bench-layers.sh [SECONDS [GRAPH...]]; a graph is LAYERS-DEVICES-CAPS-SHAPE-SCHEDULES, such as
# 40-equal-tight-chain-1f1b: devices equal or unequal, caps loose or tight, shape chain or skips, schedules
# one of the format or all. BRAID names the command.
set -eu
. "$(dirname "$0")/help.sh"
root=$(cd "$(dirname "$0")/.." && pwd)
braid=${BRAID:-$root/build/braid}
seconds=${1:-20}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- 40-equal-tight-chain-all 100-equal-tight-chain-1f1b
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

write_graph() { # LAYERS DEVICES CAPS SHAPE SCHEDULES; the layers' number is the seed
  awk -v layers="$1" -v devices="$2" -v caps="$3" -v shape="$4" -v schedules="$5" -v count=8 '
function uniform() { state = (state * 16807) % 2147483647; return state / 2147483647 }
function between(low, high) { return low * exp(uniform() * log(high / low)) }
function option(name, more, f, b, w, sync, fixed, tape, input, space) {
  return sprintf("{\"name\": \"%s\", %s\"forward_seconds\": %.6g, \"backward_seconds\": %.6g, \"weight_seconds\": %.6g, \"sync_seconds\": %.6g, \"fixed_bytes\": %.0f, \"micro_batch_bytes\": %.0f, \"weight_input_bytes\": %.0f, \"workspace_bytes\": %.0f}", name, more, f, b, w, sync, fixed, tape, input, space)
}
BEGIN {
  state = layers * 7919 + 12345
  for (i = 0; i < 10; i++) uniform()
  for (l = 0; l < layers; l++) {
    f = between(0.001, 0.008); b = f * between(1.6, 2.4); w = b * between(0.35, 0.5)
    fixed = between(1e8, 2e9); tape = between(2e7, 3e8); sync = fixed * between(1e-11, 3e-11)
    output = between(2e6, 3e7); space = between(1e7, 2e8)
    least = output < tape ? output : tape / 2
    text[l] = option("kept", "", f, b, w, sync, fixed, tape, tape / 3, space) ",\n      " \
      option("selective", "", f, b + f * between(0.1, 0.4), w, sync, fixed, least + (tape - least) * between(0.3, 0.6), tape / 5, space * 1.2) ",\n      " \
      option("recomputed", "", f, b + f * between(0.9, 1.05), w, sync, fixed, least, least / 2, space * 1.5) ",\n      " \
      option("sharded optimizer", "", f, b, w, sync * between(1.5, 2.5), fixed * between(0.4, 0.6), tape, tape / 3, space) ",\n      " \
      option("two devices", "\"devices\": 2, ", f * between(0.52, 0.65), b * between(0.52, 0.65), w * between(0.52, 0.6), sync / 2, fixed / 2, tape / 2, tape / 6, space / 2)
    out[l] = output
    fixed_sum += fixed; tape_sum += tape; need = fixed + count * tape + space * 1.5; if (need > most) most = need
  }
  cap = (fixed_sum + count / 2 * tape_sum) / count * (caps == "loose" ? 1.6 : 0.8)
  if (cap < most * 0.9 && caps == "loose") cap = most
  printf "{\"braid_layers\": 1,\n \"devices\": [\n"
  link = "\"link\": {\"latency_seconds\": 1e-5, \"bytes_per_second\": 2e11}"
  if (devices == "equal")
    printf "  {\"kind\": \"even\", \"count\": %d, \"cap_bytes\": %.0f, %s}],\n", count, cap, link
  else
    printf "  {\"kind\": \"big\", \"count\": %d, \"cap_bytes\": %.0f, %s},\n  {\"kind\": \"small\", \"count\": %d, \"cap_bytes\": %.0f, \"speed\": 0.45, %s}],\n", count / 2, cap * 1.5, link, count / 2, cap * 0.6, link
  printf " \"link\": {\"latency_seconds\": 2e-5, \"bytes_per_second\": 1e10},\n \"micro_batches\": 16,\n"
  n = split(schedules, s, ","); printf " \"schedules\": ["
  for (i = 1; i <= n; i++) printf("%s\"%s\"", (i > 1 ? ", " : ""), s[i])
  printf "],\n \"chunks\": [2, 4],\n \"layers\": [\n"
  for (l = 0; l < layers; l++)
    printf "   {\"name\": \"l%d\", \"output_bytes\": %.0f, \"options\": [\n      %s]}%s\n", l, out[l], text[l], l + 1 < layers ? "," : "]"
  if (shape == "skips") {
    printf " , \"edges\": [\n"
    for (l = 0; l + 1 < layers; l++) {
      to = "\"l" (l + 1) "\""
      if (l + 3 < layers && uniform() < 0.3) to = "[" to ", \"l" (l + 2 + int(uniform() * (layers - l - 3 < 12 ? layers - l - 3 : 12))) "\"]"
      printf "   {\"from\": \"l%d\", \"to\": %s}%s\n", l, to, l + 2 < layers ? "," : "]"
    }
  }
  printf "}\n"
}'
}

printf '%-36s %10s %10s %8s %8s\n' graph cost bound 'gap %' seconds
for graph in "$@"; do
  rest=${graph#*-*-*-*-}
  old=$IFS
  IFS=-
  set -- $graph
  IFS=$old
  [ "$rest" != all ] || rest=1f1b,gpipe,interleaved,zero-bubble
  write_graph "$1" "$2" "$3" "$4" "$rest" > "$work/graph.json"
  "$braid" solve --json --time-limit "$seconds" "$work/graph.json" > "$work/answer" 2> "$work/errors" || true
  awk -v name="$graph" -F '[:,]' '/"cost"/ {cost = $2} /"bound"/ {bound = $2} /"gap"/ {gap = $2} /"seconds": [0-9.e+-]*,$/ && !spent {spent = $2}
    END {if (cost) printf "%-36s %10.4f %10.4f %8.2f %8.1f\n", name, cost, bound, 100 * gap, spent; else printf "%-36s none\n", name}' "$work/answer"
done
