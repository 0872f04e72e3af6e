# Of a PTX module's kernels those that differ in more than their numbers, which names and labels have: the first of each.
/^\.visible \.entry/ {
  match($0, /bdk_[0-9]+/)
  number = substr($0, RSTART + 4, RLENGTH - 4)
  inside = 1
  text = body = ""
}
inside {
  text = text $0 "\n"
  line = $0
  gsub("bdk_" number "_", "", line)
  gsub("bdk_" number "\\(", "(", line)
  gsub(/__BB[0-9]+_/, "__BB_", line)
  body = body line "\n"
  if ($0 != "}") next
  inside = 0
  if (!(body in seen)) printf "%s", text
  seen[body]
  next
}
{ print }
END { if (!length(seen)) exit 1 }
