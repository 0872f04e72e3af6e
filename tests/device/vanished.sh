#!/bin/bash
# A node that vanishes: ranks on two nodes, which are network namespaces joined by a pair of interfaces, and the link of the second
# goes down in the middle. No end of a connection reaches anybody then, only silence. Nothing is sent to anywhere else: the
# namespaces have no other interface. What the fake NCCL exchanges goes by files and is not cut off.
#   vanished.sh TINY [BLOCKED]
# BLOCKED: the rank whose thread waits inside of NCCL then, so that its watchdog must end it.
set -u
# What the script starts ends with it: it runs as the first process of a namespace of processes.
if [ "${3:-}" != inside ]; then
  for tool in unshare nsenter ip; do
    command -v $tool >/dev/null || { echo "skipped: there is no $tool"; exit 77; }
  done
  for way in '' --map-root-user; do
    enter="unshare $way --net --pid --mount-proc --fork --kill-child"
    ! $enter ip link add near type veth peer name far 2>/dev/null ||
      exec $enter "$BASH" "$0" "$1" "${2:-}" inside "$(readlink /proc/self/ns/net)"
  done
  echo 'skipped: this process may not make namespaces that are joined'
  exit 77
fi

tiny=$(realpath "$1") blocked=${2:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
cd "$work" || exit 1
mkdir shared
echo 'it was the best of times, it was the worst of times' >text.txt
failures=0
fail() { echo "FAIL: $*"; failures=$((failures + 1)); }

# The second node, which lasts as long as a process in it. Addresses are those of documentation (RFC 5737).
unshare --net sleep 300 &
holder=$!
there=(nsenter --target $holder --net)
here=$(readlink /proc/self/ns/net)
for ((i = 0; i < 100; i++)); do
  far=$(readlink /proc/$holder/ns/net) && [ "$far" != "$here" ] && break
  sleep 0.1
done
[ "$here" != "$4" ] && [ "$far" != "$4" ] && [ "$far" != "$here" ] || { fail 'the nodes have no namespaces of their own'; exit 1; }
{
  ip link add near type veth peer name far && "${there[@]}" true && ip link set far netns $holder &&
    ip address add 192.0.2.1/24 dev near && "${there[@]}" ip address add 192.0.2.2/24 dev far &&
    ip link set lo up && ip link set near up && "${there[@]}" ip link set lo up && "${there[@]}" ip link set far up
} || { fail 'the nodes cannot be joined'; exit 1; }

processes=() codes=()
for rank in 0 1 2 3; do
  node=() host=first
  [ $rank -lt 2 ] || { node=("${there[@]}") host=second; }
  env RANK=$rank WORLD_SIZE=4 LOCAL_RANK=$((rank % 2)) MASTER_ADDR=192.0.2.1 MASTER_PORT=29400 TINY_RANKS=2 TINY_STAGES=2 \
    BD_FAKE_RANK=$rank BD_FAKE_FOLDER="$work/shared" BD_FAKE_HOST=$host BRAID_JOIN_SECONDS=20 \
    BD_FAKE_TROUBLED="${blocked:--1}" BD_FAKE_BLOCKS=1 BD_FAKE_AFTER=20 BD_FAKE_BLOCKED="$work/blocked" \
    timeout 100 "${node[@]}" "$tiny" --data text.txt --steps 100000000 2>log.$rank </dev/null &
  processes+=($!)
done
for ((i = 0; i < 200; i++)); do
  grep -q 'step 2/' log.0 && { [ -z "$blocked" ] || [ -e blocked ]; } && break
  sleep 0.1
done
grep -q 'step 2/' log.0 || fail 'nothing is trained'
"${there[@]}" ip link set far down
start=$SECONDS
for process in "${processes[@]}"; do
  wait "$process"
  codes+=($?)
done
took=$((SECONDS - start))
[ "${codes[*]}" = '10 10 10 10' ] || fail "the ranks end with ${codes[*]}, not with 10"
[ $took -le 30 ] || fail "the last rank ends $took seconds after the node has vanished"
[ $took -ge 12 ] || fail "ranks end $took seconds after, so that something else than silence has told them"
# PATTERN LOG...: of the line that the ranks of a node say together, and no more.
says() {
  cat "${@:2}" | tr '\r' '\n' | grep '^braid: ' >said
  [ "$(grep -cx "$1" said)" = 1 ] && [ "$(wc -l <said)" = 1 ] || fail "a node says '$(cat said)', not '$1' once"
}
says 'braid: rank [23] ended early' log.0 log.1 # the connections to both are silent
says 'braid: rank 2 ends too: rank 0 ended early' log.2 log.3
[ $failures = 0 ] || { tail -n 3 log.*; exit 1; }
echo "all end after $took seconds"
