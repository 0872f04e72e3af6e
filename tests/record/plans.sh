#!/bin/bash
# Makes the plans of cases.txt anew, where the planner's freedom is pinned: what a record is compared with
# depends on the plan, so the plans are kept and this is run by hand only.
#   plans.sh BRAID [NAME...]
set -euo pipefail
braid=$(realpath "$1")
shift
here=$(dirname "$(realpath "$0")")
road=$here/../road
cd "$here/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What the reader of a plan may do without.
strip() {
  awk '/^ *"predicted": / { exit }
    { sub(/^ +/, ""); sub(/"op": "[^"]*", /, ""); sub(/, "cuts": \[[^]]*\]/, ""); sub(/, "recomputed": [a-z]*/, ""); print }' |
    sed '/^"cluster": /d; s/\[ \]/[]/; $ { s/,$//; s/$/\n}/ }'
}

while read -r name _ model cluster stages mesh micro global schedule precision recompute cut zero parts; do
  case $name in \#*) continue ;; esac
  if [ $# -gt 0 ]; then
    case " $* " in *" $name "*) ;; *) continue ;; esac
  fi
  pins=()
  [ "$precision" = "${precision%,*}" ] || pins+=(--masters none --gradients "${precision#*,}")
  shape=(--mesh "$mesh")
  case $cut in *=*) shape=(--pin "$cut") cut=- ;; esac
  [ "$recompute" = - ] || pins+=(--recompute "$recompute")
  "$braid" compile "$model" --cluster "$cluster" --target cuda --precision "${precision%,*}" --global-batch "$global" \
    --stages "$stages" "${shape[@]}" --micro-batch "$micro" --schedule "$schedule" ${pins[@]+"${pins[@]}"} \
    --emit plan -o "$work/plan"
  if [ "$cut" != - ]; then
    axes=${zero%%:*}
    [ "$axes" = "$zero" ] && [ "$zero" != - ] || axes=
    awk -v cut="$cut" -v zero="${axes:- }" -f "$road/cut.awk" "$work/plan" >"$work/cut"
    mv "$work/cut" "$work/plan"
    case $zero in
    2:* | 3:*)
      awk -v level="${zero%:*}" -v axis="${zero#*:}" -f "$road/spread.awk" "$work/plan" >"$work/cut"
      mv "$work/cut" "$work/plan"
      ;;
    esac
  fi
  if [ -n "$parts" ]; then
    IFS=: read -r axis count scatter <<<"$parts"
    awk -v parts="$count" -v axis="$axis" -v scatter="$scatter" -f "$road/parts.awk" "$work/plan" >"$work/cut"
    mv "$work/cut" "$work/plan"
  fi
  strip <"$work/plan" >"$here/plans/$name.json"
done <"$here/cases.txt"
