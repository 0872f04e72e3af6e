# What ptxas says of spilled registers, but for what attention's kernels may: the first file has their numbers and the
# widths of their heads.
FNR == NR { may[$1] = $2 > 64 ? 192 : 128; next }
/spilled/ {
  match($0, /bdk_[0-9]+/)
  number = substr($0, RSTART + 4, RLENGTH - 4)
  match($0, /[0-9]+ bytes spill stores/)
  if (number in may && substr($0, RSTART, RLENGTH) + 0 <= may[number]) next
  print what ": " $0
  failed = 1
}
END { exit failed }
