# Kernels that move less than 16 bytes at once between memory and registers, as kernels.ptx has them, which the stages'
# programs name: of the kinds that docs/kernels.md lists, or of rows that are few numbers or no multiple of 8.
BEGIN {
  split("permute gather_dx scatter reduce_max reduce_min reduce_prod cumsum topk search row_items fold unfold xent relative_attention_grad",
        kinds, " ")
  for (i in kinds) may[kinds[i]]
}
FNR == 1 { file++ }
file == 1 && /^\.visible \.entry/ {
  match($0, /bdk_[0-9]+/)
  kernel = substr($0, RSTART + 4, RLENGTH - 4)
  widest[kernel] = 0
}
file == 1 && match($0, /(ld|st)\.global[.a-z0-9]*/) {
  count = split(substr($0, RSTART, RLENGTH), part, ".")
  bytes = substr(part[count], 2) / 8
  if (part[count - 1] ~ /^v/) bytes *= substr(part[count - 1], 2)
  if (bytes > widest[kernel]) widest[kernel] = bytes
}
file == 1 { next }

# What is cut stands as part2.start, part2.count; its whole extent behind the variable.
match($0, /part[0-9]+; \/\/ of [0-9]+/) {
  split(substr($0, RSTART, RLENGTH), word, /; \/\/ of /)
  whole[word[1] ".count"] = word[2]
}
/bd_rt_mark\(/ { words = $0; sub(/.*\/\/ /, "", words); parts = 1 }
match($0, /part < [0-9]+/) { parts = substr($0, RSTART + 7, RLENGTH - 7) }
match($0, /bd_rt_launch\(rt, [0-9]+/) {
  first = substr($0, RSTART + 17, RLENGTH - 17)
  row = $0
  sub(/\}, [^}]*$/, "", row)
  sub(/.*[ {]/, "", row)
  if (row in whole) row = whole[row]
  if (row !~ /^[0-9]+$/) { print what ": no row in " $0; failed = 1 }
  for (i = 0; i < parts; i++) {
    name[first + i] = words
    short[first + i] = row + 0 < 16 || row % 8
  }
}
END {
  if (!length(widest)) { print what ": no kernels"; failed = 1 }
  for (kernel in widest) {
    if (widest[kernel] >= 16 || short[kernel]) continue
    allowed = 0
    count = split(name[kernel], word, ", ")
    for (i = 1; i <= count; i++) if (word[i] in may) allowed = 1
    if (allowed) continue
    print what ": kernel " kernel " (" name[kernel] ") moves " widest[kernel] " bytes at once"
    failed = 1
  }
  exit failed
}
