# Rewrites the strategies of a plan so that each mesh axis cuts the model in one named way:
#   awk -v cut=batch,tensor -v zero=0 -f cut.awk plan.json
# batch     samples
# tensor    heads, hidden columns and the vocabulary
# sequence  tokens; attention needs them all, so its operands are gathered and it runs on every part
# context   tokens, of attention its queries: keys and values are gathered
# balanced  as context, but that ranks swap halves of their queries, so that each has as much to do
# mixed     tokens outside the products, heads and columns inside
# group     query heads of each key-value head, where all keys and values are whole, and hidden columns
# `zero` lists the axes that split optimizer states. What is saved stays as the plan has it.
BEGIN {
  swaps = cut ~ /balanced/
  gsub("balanced", "context", cut)
  axes = split(cut, way, ",")
}

function field(name,   rest) {
  rest = $0
  sub(".*\"" name "\": \"", "", rest)
  sub("\".*", "", rest)
  return rest
}

function column_letter(op, result) {
  if (op == "embed") return "v"
  if (op == "rope") return "h"
  if (op == "attention") return "k"
  if (op == "lse" || op == "xent") return "v"
  if (op == "contract") return result == "logits" ? "v" : result ~ /^(c_fc|mlp|gate|up|down)/ ? "f" : "h"
  return result ~ /^([qkv]|c_fc|activated|gated)$/ ? "C" : "-"
}

function letter(way, op, result,   column) {
  if (way == "batch") return op == "contract" || op == "rope" || op == "attention" ? "b" : "A"
  if (way == "context" && (op == "rope" || op == "attention")) return "t"
  if (way == "sequence" || way == "context")
    return op == "contract" ? "t" : op == "rope" || op == "attention" ? "-" : "B"
  if (way == "group" && (result ~ /^([kv](_rotated)?|logits)$/ || op ~ /^(embed|lse|xent)$/)) return "-"
  if (way == "group" && op == "attention") return "g"
  column = column_letter(op, result)
  return way == "mixed" && column == "-" ? "B" : column
}

function is_weight(value) {
  return value ~ /\.(g|b|w)$/ || value ~ /^(w[qkvo]|b[qkv]|wte|wpe|embedding|lm)$/
}

function column_dim(value) {
  if (value ~ /^(w[qkv]|c_fc\.w|gate\.w|up\.w)$/) return 1
  if (value ~ /^(b[qkv]|c_proj\.w|wo|c_fc\.b|mlp\.w|down\.w|wte|embedding|lm)$/) return 0
  if (value ~ /^([qkv](_product|_rotated)?|attended(\.1)?|c_fc(_product)?|activated|gate|up|gated)$/)
    return 2
  return value == "logits" ? 2 : "null"
}

function dim(way, value,   column) {
  if (value == "loss") return "null"
  if (way == "batch") return is_weight(value) ? "null" : 0
  if (way == "sequence" || way == "context") return is_weight(value) ? "null" : 1
  if (way == "group" && value ~ /^(w[kv]|[kv](_rotated)?|embedding|lm|logits)$/) return "null"
  column = column_dim(value)
  return way == "mixed" && column == "null" && !is_weight(value) ? 1 : column
}

/^ *"zero_axes"/ && zero != "" { sub(/\[.*\]/, "[" zero "]") }
/"result": / {
  letters = ""
  for (i = 1; i <= axes; i++) letters = letters letter(way[i], field("op"), field("result"))
  swapped = swaps && field("op") == "attention" ? ", \"balanced\": true" : ""
  sub(/"split": "[^"]*"(, "balanced": true)?/, "\"split\": \"" letters "\"" swapped)
}
/"value": / {
  dims = ""
  for (i = 1; i <= axes; i++) dims = dims (i > 1 ? ", " : "") dim(way[i], field("value"))
  sub(/"dims": \[[^]]*\](, "gradient": \[[^]]*\])?/, "\"dims\": [" dims "]")
}
{ print }
