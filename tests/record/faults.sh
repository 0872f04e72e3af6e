#!/bin/bash
# Records that were spoiled on purpose are refused, each with the fault that was put in.
#   faults.sh BRAID RECORD
set -euo pipefail
braid=$(realpath "$1") record=$(realpath "$2")
root=$(realpath "$(dirname "$0")/../..")
. "$root/tests/record/case.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
build_case gpt2-three-axes "$work"

# WHAT PATTERN
refuse() {
  local status=0
  "$record" --steps "$steps" --spoil "$1" "${files[@]}" >"$work/said" 2>&1 || status=$?
  [ "$status" = 1 ] || { echo "FAIL: $1 ends with $status"; cat "$work/said"; exit 1; }
  grep -qE -- "$2" "$work/said" || { echo "FAIL: $1 is not told as '$2':"; cat "$work/said"; exit 1; }
}

# Between ranks
refuse collective-missing 'rank 0 waits for ever'
refuse collective-kind 'ranks 0 and [0-9]+ do not match'
refuse collective-count 'ranks 0 and [0-9]+ do not match: .*\[.*, and .*\['
refuse collective-type 'ranks 0 and [0-9]+ do not match: .* type 1.* type 0'
refuse collective-group 'rank 0 waits for ever'
refuse collective-order 'rank 0 waits for ever'
refuse send-missing 'rank 8 waits for ever, .* for message [0-9]+ from rank 0'
refuse send-late 'rank 0 waits for ever, .* for message 1 from rank 8'
refuse receive-missing 'ranks 8 and 0 do not match'
refuse message-size 'ranks 8 and 0 do not match: message of tag [0-9]+, ([0-9]+) bytes, in line 0, and'
# Under way
refuse collective-unawaited 'touches .* which is under way'
refuse wait-missing 'copy touches .* which is under way'
refuse wait-early 'waits for operation 0, which is not under way'
refuse aside-unawaited 'touches .* of operation 1025, which is under way'
refuse aside-early 'matmul touches .* of operation 1025, which is under way'
refuse beside-unawaited 'launch touches .* of operation 1026, which is under way'
refuse beside-overwritten 'touches .* of operation 1026, which is under way'
refuse deferred-unawaited 'step 1, F0, .* touches .* of operation 1282, which is under way'
refuse deferred-late 'step 1, F0, .* touches .* of operation 1282, which is under way'
refuse deferred-twice 'all_gather touches .* of operation 1282, which is under way'
# In the arena
refuse overlap 'reads .* is now that of'
refuse overlap-late 'reads .* is now that of'
refuse beyond-arena 'beyond the arena'
refuse clear-missing 'reads gradient .* written by nobody'
refuse deferred-again 'gathers weight .*, which is whole'
refuse deferred-missing 'step 1, F0, .* reads weight .* written by nobody'
steps=1 refuse deferred-missing 'ends without all of weight'
steps=1 refuse deferred-left 'ends while operation 1282 is under way'
refuse gather-missing 'step 1, F0, .* reads weight .* written by nobody'
refuse buffers-overlap 'weight .* and weight .* overlap'
# In the stream
refuse collective-count 'moves other elements'
refuse collective-group 'with axes 0x[0-9]+, expected 0x'
refuse launch-missing 'the program does .* here'
refuse launch-order 'the program does .* here'
refuse operand-place 'takes weight .* it lies at'
refuse operand-size 'touches .* bytes of .* which has'
refuse sum-overwritten 'overwrites what it must add to'
refuse sum-not-begun 'adds to what is not there yet'
refuse apply-missing 'weight .* is updated 0 times'
refuse sum-missing 'takes gradient .* before it is summed over axes'
refuse sum-twice 'sums gradient .* are left'

# An encoder's end and a decoder's beginning go to the next stage.
mkdir "$work/t5"
build_case t5 "$work/t5"
refuse messages-alone 'rank 0 waits for ever, .* for the beginning of a message to stage 1 behind another'

# A U-Net's skips go over stages.
mkdir "$work/unet"
build_case unet-data "$work/unet"
refuse messages-in-line 'rank [0-9]+ waits for ever, .* for the beginning of a message to stage [0-9]+ behind another'
