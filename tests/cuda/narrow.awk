# Kernels whose loads, or whose stores, all move less than 16 bytes between memory and registers, as kernels.ptx has them,
# which the stages' programs name: but for kinds that docs/kernels.md lists, and rows that are few numbers or no multiple of 8.
BEGIN {
  # Kinds by what the steps of a kernel are called, beside constants and products, and the kernel's number among those of its
  # step where only this one is meant.
  may("ld st", "permute gather_dx scatter reduce_max reduce_min reduce_prod cumsum topk search row_items fold unfold xent")
  may("ld st", "lse,xent:1 relative_attention_grad:3")
  may("ld", "broadcast select") # of a number for each row; of bools
  may("st", "lse attention_grad:0 relative_attention_grad:0 eq lt le and or not") # numbers of rows; bools
}
function may(ways, kinds,    kind, way, k, w) {
  split(kinds, kind, " ")
  split(ways, way, " ")
  for (k in kind) for (w in way) allowed[kind[k], way[w]]
}
FNR == 1 { file++ }
file == 1 && /^\.visible \.entry/ {
  match($0, /bdk_[0-9]+/)
  kernel = substr($0, RSTART + 4, RLENGTH - 4)
  there[kernel]
}
# What a block's warps add up of columns: a sum over rows, whose result is a row.
file == 1 && /\.shared .*_sums\[/ { columns[kernel] }
file == 1 && match($0, /(ld|st)\.global[.a-z0-9]*/) {
  way = substr($0, RSTART, 2)
  count = split(substr($0, RSTART, RLENGTH), part, ".")
  bytes = substr(part[count], 2) / 8
  if (part[count - 1] ~ /^v/) bytes *= substr(part[count - 1], 2)
  if (bytes > widest[kernel, way]) widest[kernel, way] = bytes
}
file == 1 { next }

# What is cut stands as part2.start, part2.count; its whole extent behind the variable.
match($0, /part[0-9]+; \/\/ of [0-9]+/) {
  split(substr($0, RSTART, RLENGTH), word, /; \/\/ of /)
  whole[word[1] ".count"] = word[2]
}
/bd_rt_mark\(/ {
  words = $0
  sub(/.*\/\/ /, "", words)
  kind = words
  gsub(/constant, |contract, /, "", kind)
  gsub(/, /, ",", kind)
  parts = 1
}
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
    kinds[first + i] = kind
    number[first + i] = i
    short[first + i] = row + 0 < 16 || row % 8
  }
}
# `way`: ld or st. A sum along rows, not over them, makes a number of each.
function check(kernel, way, moves) {
  if (!((kernel, way) in widest) || widest[kernel, way] >= 16) return
  if ((kinds[kernel], way) in allowed || (kinds[kernel] ":" number[kernel], way) in allowed) return
  if (kinds[kernel] == "reduce_sum" && way == "st" && !(kernel in columns)) return
  print what ": kernel " kernel " (" name[kernel] ") " moves " " widest[kernel, way] " bytes at once"
  failed = 1
}
END {
  if (!length(there)) { print what ": no kernels"; failed = 1 }
  for (kernel in there) {
    if (short[kernel]) continue
    check(kernel, "ld", "loads")
    check(kernel, "st", "stores")
  }
  exit failed
}
