# Has the products done in parts whose results are summed over the ranks of a tensor cut:
#   awk -v parts=4 -v axis=0 -v scatter=1 -f parts.awk plan.json
# With `scatter` every rank of the axis keeps the sums of its own tokens where a block's branches end.
function name_of(key,   rest) {
  rest = $0
  sub(".*\"" key "\": \"", "", rest)
  sub("\".*", "", rest)
  return rest
}

function ends_branch(name) { return name ~ /^((c_proj|mlp)_product|o|down)$/ }

/"result": / {
  result = name_of("result")
  pass = ends_branch(result) ? "parts" : result ~ /^((q|k|v|c_fc)_product|[qkv]|gate|up|logits)$/ ? "backward_parts" : ""
  if (pass != "" && $0 ~ /"op": "contract"/) sub(/"split": "[^"]*"/, "&, \"" pass "\": " parts)
}

/"value": / {
  if (scatter && ends_branch(name_of("value"))) {
    dims = $0
    sub(/.*"dims": \[/, "", dims)
    sub(/\].*/, "", dims)
    count = split(dims, at, ", ")
    at[axis + 1] = 1
    list = at[1]
    for (i = 2; i <= count; i++) list = list ", " at[i]
    sub(/"dims": \[[^]]*\]/, "\"dims\": [" list "]")
  }
}

{ print }
