# The kernels that a stage's program launches for attention, one or parts in a loop: their numbers, and the width
# of the heads, which is the last extent.
/bd_rt_mark\(/ { words = $0; sub(/.*\/\//, "", words); parts = 1 }
match($0, /part < [0-9]+/) { parts = substr($0, RSTART + 7, RLENGTH - 7) }
match($0, /bd_rt_launch\(rt, [0-9]+/) && words ~ /attention/ {
  first = substr($0, RSTART + 17, RLENGTH - 17)
  width = $0
  sub(/\}, [^}]*$/, "", width)
  sub(/.*, /, "", width)
  for (part = 0; part < parts; part++) print first + part, width
}
