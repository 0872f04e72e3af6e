# Cuts what a plan holds of every weight over one more mesh axis, where that axis has replicas of it:
#   awk -v level=2 -v axis=0 -f spread.awk plan.json
# Level 2: the accumulators of its gradients; 3: the weight itself as well. The first dimension that
# no other axis cuts is cut, which at level 2 is never the vocabulary: it need not be divided evenly. Vectors that
# are cut already stay as they are.
function is_weight(value) {
  return value ~ /\.(g|b|w)$/ || value ~ /^(w[qkvo]|b[qkv]|wte|wpe|embedding|lm)$/
}

function is_vector(value) { return value ~ /\.(g|b)$/ || value ~ /^b[qkv]$/ }

/"value": / {
  value = $0
  sub(/.*"value": "/, "", value)
  sub(/".*/, "", value)
  dims = $0
  sub(/.*"dims": \[/, "", dims)
  sub(/\].*/, "", dims)
  count = split(dims, at, ", ")
  free = dims ~ /0/ || (level == 2 && value ~ /^(wte|embedding|lm)$/) ? 1 : 0
  if (is_weight(value) && at[axis + 1] == "null" && !(free == 1 && is_vector(value))) {
    at[axis + 1] = free
    spread = at[1]
    for (i = 2; i <= count; i++) spread = spread ", " at[i]
    if (level == 3) sub(/"dims": \[[^]]*\]/, "\"dims\": [" spread "]")
    else sub(/"dims": \[[^]]*\]/, "\"dims\": [" dims "], \"gradient\": [" spread "]")
  }
}

{ print }
