# What ptxas says of spilled registers, but for 128 bytes of the kernels whose numbers the first file has.
FNR == NR { may[$1] = 1; next }
/spilled/ {
  match($0, /bdk_[0-9]+/)
  number = substr($0, RSTART + 4, RLENGTH - 4)
  match($0, /[0-9]+ bytes spill stores/)
  if (number in may && substr($0, RSTART, RLENGTH) + 0 <= 128) next
  print what ": " $0
  failed = 1
}
END { exit failed }
