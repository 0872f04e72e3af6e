# Compares two files: expected lines are `step loss norm`; a line of metrics has them as members.
function member(name) {
  if (!match($0, "\"" name "\": [^,}]+")) return "absent"
  return substr($0, RSTART + length(name) + 4, RLENGTH - length(name) - 4)
}
function distance(a, b) { return a > b ? (a - b) / b : (b - a) / b }
NR == FNR { loss[$1] = $2; norm[$1] = $3; expected++; next }
{
  step = member("step"); got = member("loss"); got_norm = member("grad_norm"); seen++
  if (!(step in loss) || got !~ /^[0-9]/ || got_norm !~ /^[0-9]/) { print "step " step ": unexpected: " $0; bad = 1; next }
  off = distance(got + 0, loss[step]); norm_off = distance(got_norm + 0, norm[step])
  far = off > 1e-4 || norm_off > 1e-3
  printf "step %d: loss %.9f, expected %.9f, off by %.1e; gradient norm off by %.1e%s\n",
         step, got, loss[step], off, norm_off, far ? "  TOO FAR" : ""
  if (far) bad = 1
}
END { if (seen != expected || seen == 0) { print seen + 0 " steps of " expected; bad = 1 } exit bad }
