# What ptxas says of spilled registers, but for the kernels whose numbers the first file has.
FNR == NR { may[$1] = 1; next }
/spilled/ {
  match($0, /bdk_[0-9]+/)
  if (substr($0, RSTART + 4, RLENGTH - 4) in may) next
  print what ": " $0
  failed = 1
}
END { exit failed }
