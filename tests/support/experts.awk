# The text of an ONNX model, for make_onnx, with layers of experts as exporters write them: tokens [N, 16], a table of
# 256 rows of 16, two layers x + experts(norm(x)), a norm, scores of 256 classes. Two of 4 experts see a token.
#   awk -v form=FORM -f experts.awk
# selected   one expert after another: NonZero, Gather and ScatterElements (TorchScript's exporter, Mixtral of transformers 4)
# returned   the same with GatherND and ScatterND (the exporter of torch.export)
# looked-up  matrices of all experts, looked up by the choices (transformers 5, batched_mm)
# all        matrices of all experts, each on every token, times weights that are scattered
# each       one expert after another on every token, times its column of these weights
# biased     as returned, two matrices with biases and GELU
# broken     as returned, but for an expert whose rows are summed
# All forms but the last two compute the same of the same weights, however they are stored: element i of tensor n is
# scale * sin(1.7 i + n), as scripts/expected-losses.py has them.
function attributes(list,   parts, i, key, value, count) {
  count = split(list, parts, " ")
  for (i = 1; i <= count; i++) {
    key = value = parts[i]
    sub(/=.*/, "", key)
    sub(/.*=/, "", value)
    printf " attribute { name: \"%s\" ", key
    if (value ~ /^[a-z]/) printf "s: \"%s\" type: 3 }", value
    else if (value ~ /\.5$|\.0$/) printf "f: %s type: FLOAT }", value
    else if (key == "perm" || key == "axes") { gsub(/,/, " ints: ", value); printf "ints: %s type: INTS }", value }
    else printf "i: %s type: INT }", value
  }
}
# Operands and results are separated by blanks; the first result is returned.
function node(op, operands, results, list,   parts, count, i) {
  if (results == "") results = op "_" ++made
  printf "node { op_type: \"%s\"", op
  count = split(operands, parts, " ")
  for (i = 1; i <= count; i++) printf " input: \"%s\"", parts[i]
  count = split(results, parts, " ")
  for (i = 1; i <= count; i++) printf " output: \"%s\"", parts[i]
  attributes(list)
  print " }"
  return parts[1]
}
function whole(values, scalar,   name, count) {
  name = (scalar ? "scalar" : "list") "_" values
  gsub(/[ -]/, "_", name)
  if (name in known) return name
  known[name] = 1
  count = split(values, unused, " ")
  gsub(/ /, " int64_data: ", values)
  printf "initializer { name: \"%s\" %sdata_type: INT64 int64_data: %s }\n", name, scalar ? "" : "dims: " count " ", values
  return name
}
function one(value) { return whole(value, 1) }
function real(value,   name) {
  name = "real_" value
  if (name in known) return name
  known[name] = 1
  printf "initializer { name: \"%s\" data_type: FLOAT raw_data: f32 [%s ] }\n", name, value
  return name
}
function element(number, i, scale, base) { return sprintf(" %.12f", base + scale * sin(1.7 * i + number)) }
function open_tensor(name, dims,   parts, count, i, size) {
  count = split(dims, parts, " ")
  size = 1
  printf "initializer { name: \"%s\"", name
  for (i = 1; i <= count; i++) { printf " dims: %d", parts[i]; size *= parts[i] }
  printf " data_type: FLOAT raw_data: f32 ["
  return size
}
function tensor(name, number, dims, scale, base,   i, size) {
  size = open_tensor(name, dims)
  for (i = 0; i < size; i++) printf "%s", element(number, i, scale, base)
  print " ] }"
  return name
}
# A matrix [out, in] as [in, out].
function turned(name, number, out, inner,   i, k) {
  open_tensor(name, inner " " out)
  for (k = 0; k < inner; k++)
    for (i = 0; i < out; i++) printf "%s", element(number, i * inner + k, 0.4, 0)
  print " ] }"
  return name
}
# Matrices of all experts of a layer: tensors `first` and, where there are two, `second` of each, one above the other.
function stacked(name, dims, first, second,   expert, i, size) {
  size = open_tensor(name, dims) / 4
  for (expert = 0; expert < 4; expert++) {
    for (i = 0; i < 384; i++) printf "%s", element(expert_number(expert) + first, i, 0.4, 0)
    for (i = 0; i < size - 384; i++) printf "%s", element(expert_number(expert) + second, i, 0.4, 0)
  }
  print " ] }"
  return name
}
function expert_number(expert) { return 3 + 20 * layer + 4 * expert }
function norm(x, name, number,   y) {
  y = node("Pow", x " " real("2.0"))
  y = node("ReduceMean", y (opset < 18 ? "" : " " whole("-1")), "", "keepdims=1" (opset < 18 ? " axes=-1" : ""))
  y = node("Sqrt", node("Add", y " " real("0.00001")))
  y = opset < 18 ? node("Div", real("1.0") " " y) : node("Reciprocal", y)
  return node("Mul", tensor(name, number, "16", 0.1, 1) " " node("Mul", x " " y))
}
# The three products of an expert of rows, with matrices as they are stored, [out, in].
function perceive(rows, h, expert,   w1, w2, w3, b1, b2, gate, n) {
  n = expert_number(expert)
  h = h "experts." expert "."
  if (form == "biased") {
    w1 = tensor(h "w1.weight", n + 0, "24 16", 0.4, 0)
    b1 = tensor(h "w1.bias", n + 2, "24", 0.2, 0)
    gate = node("Gemm", rows " " w1 " " b1, "", "transB=1")
    gate = node("Mul", node("Mul", gate " " real("0.5")) " " node("Add", node("Erf", node("Mul", gate " " real("0.70710678118"))) " " real("1.0")))
    w2 = tensor(h "w2.weight", n + 1, "16 24", 0.4, 0)
    b2 = tensor(h "w2.bias", n + 3, "16", 0.2, 0)
    return node("Gemm", gate " " w2 " " b2, "", "transB=1")
  }
  w1 = tensor(h "w1.weight", n + 0, "24 16", 0.4, 0)
  w2 = tensor(h "w2.weight", n + 1, "16 24", 0.4, 0)
  w3 = tensor(h "w3.weight", n + 2, "24 16", 0.4, 0)
  gate = node("Gemm", rows " " w1, "", "transB=1")
  gate = node("Mul", gate " " node("Sigmoid", gate))
  return node("Gemm", node("Mul", gate " " node("Gemm", rows " " w3, "", "transB=1")) " " w2, "", "transB=1")
}
function perceive_numbered(rows, expert,   w1, w2, w3, gate, n) {
  n = expert_number(expert)
  w1 = turned("onnx::MatMul_" numbered++, n, 24, 16)
  w3 = turned("onnx::MatMul_" numbered++, n + 2, 24, 16)
  w2 = turned("onnx::MatMul_" numbered++, n + 1, 16, 24)
  gate = node("MatMul", rows " " w1)
  gate = node("Mul", gate " " node("Sigmoid", gate))
  return node("MatMul", node("Mul", gate " " node("MatMul", rows " " w3)) " " w2)
}
# Rows of an expert's tokens, by GatherND, and back by ScatterND.
function add_returned(sum, x, weights, mask, h, expert,   places, token, choice, rows, y, apart) {
  places = node("Transpose", node("NonZero", node("Gather", mask " " one(expert), "", "axis=0")), "", "perm=1,0")
  choice = node("Squeeze", node("Slice", places " " whole("0") " " whole("1") " " whole("1")) " " whole("1"))
  token = node("Squeeze", node("Slice", places " " whole("1") " " whole("2") " " whole("1")) " " whole("1"))
  token = node("Unsqueeze", token " " whole("-1"))
  choice = node("Unsqueeze", choice " " whole("-1"))
  rows = node("Transpose", node("Unsqueeze", x " " whole("0")), "", "perm=1,0,2")
  rows = node("Transpose", node("GatherND", rows " " token), "", "perm=1,0,2")
  rows = node("Reshape", rows " " whole("-1 16"))
  y = perceive(rows, h, expert)
  if (form == "broken" && expert == 3) y = node("Add", y " " node("ReduceSum", y " " whole("0")))
  apart = node("Unsqueeze", weights " " whole("2"))
  y = node("Mul", y " " node("GatherND", apart " " node("Concat", token " " choice, "", "axis=-1")))
  return node("ScatterND", sum " " token " " y, "", "reduction=add")
}
# The same by Gather, the weights by numbers of rows, and back by ScatterElements.
function add_selected(sum, x, weights, mask, expert,   places, token, choice, rows, y, flat, at, shape) {
  places = node("Transpose", node("NonZero", node("Cast", node("Gather", mask " " one(expert), "", "axis=0"), "", "to=9")), "", "perm=1,0")
  choice = "choice_" ++made
  token = "token_" ++made
  node("Split", places " " whole("1 1"), choice " " token, "axis=1")
  choice = node("Squeeze", choice " " whole("1"))
  token = node("Squeeze", token " " whole("1"))
  rows = node("Gather", node("Unsqueeze", x " " whole("0")) " " token, "", "axis=1")
  y = perceive_numbered(node("Reshape", rows " " whole("-1 16")), expert)
  flat = node("Unsqueeze", weights " " whole("2"))
  shape = node("Shape", flat)
  at = node("Add", choice " " node("Mul", token " " node("Gather", shape " " one("1"), "", "axis=0")))
  flat = node("Gather", node("Flatten", flat, "", "axis=2") " " at, "", "axis=0")
  shape = node("Concat", node("Shape", at) " " whole("1"), "", "axis=0")
  y = node("Mul", y " " node("Reshape", node("Reshape", flat " " whole("-1 1")) " " shape))
  y = node("Expand", y " " node("Shape", node("Slice", sum " " whole("0 0") " " whole("1 9223372036854775807") " " whole("0 1"))))
  at = node("Expand", node("Unsqueeze", token " " whole("1")) " " node("Shape", y))
  flat = node("ConstantOfShape", node("Shape", sum))
  return node("Add", sum " " node("ScatterElements", flat " " at " " y, "", "axis=0"))
}
# Matrices of all experts by the choices of each token.
function look_up(x, weights, chosen, h,   rows, at, both, y, gate, up) {
  rows = node("Reshape", node("Expand", node("Unsqueeze", x " " whole("1")) " " whole("1 2 1")) " " whole("-1 16"))
  at = node("Unsqueeze", node("Reshape", chosen " " whole("-1")) " " whole("-1"))
  both = node("GatherND", stacked(h "experts.gate_up_proj", "4 48 16", 0, 2) " " at)
  y = node("Squeeze", node("MatMul", both " " node("Unsqueeze", rows " " whole("-1"))) " " whole("-1"))
  gate = "gate_" ++made
  up = "up_" ++made
  node("Split", y, gate " " up, "axis=1 num_outputs=2")
  y = node("Mul", node("Mul", gate " " node("Sigmoid", gate)) " " up)
  both = node("GatherND", stacked(h "experts.down_proj", "4 16 24", 1) " " at)
  y = node("Squeeze", node("MatMul", both " " node("Unsqueeze", y " " whole("-1"))) " " whole("-1"))
  y = node("Mul", y " " node("Unsqueeze", node("Reshape", weights " " whole("-1")) " " whole("-1")))
  return node("ReduceSum", node("Reshape", y " " whole("-1 2 16")) " " whole("1"), "", "keepdims=0")
}
# The weights of tokens for all experts, [N, 4].
function gate_of(share, weights, chosen,   zeros) {
  zeros = node("ConstantOfShape", node("Shape", share))
  return node("ScatterElements", zeros " " chosen " " weights, "", "axis=1")
}
# Every expert on every token.
function run_all(x, gate, h,   rows, up, down, y) {
  rows = node("Expand", node("Unsqueeze", x " " whole("0")) " " whole("4 1 1"))
  up = node("Transpose", stacked(h "experts.w1", "4 24 16", 0), "", "perm=0,2,1")
  y = node("MatMul", rows " " up)
  y = node("Mul", y " " node("Sigmoid", y))
  up = node("Transpose", stacked(h "experts.w3", "4 24 16", 2), "", "perm=0,2,1")
  y = node("Mul", y " " node("MatMul", rows " " up))
  down = node("Transpose", stacked(h "experts.w2", "4 16 24", 1), "", "perm=0,2,1")
  y = node("Mul", node("MatMul", y " " down) " " node("Unsqueeze", node("Transpose", gate, "", "perm=1,0") " " whole("-1")))
  return node("ReduceSum", y " " whole("0"), "", "keepdims=0")
}
function experts(x, h,   flat, share, weights, chosen, mask, sum, i) {
  flat = node("Reshape", x " " whole("-1 16"))
  share = node("Softmax", node("Gemm", flat " " tensor(h "gate.weight", 2 + 20 * layer, "4 16", 0.5, 0), "", "transB=1"), "", "axis=-1")
  weights = "best_" ++made
  chosen = "chosen_" ++made
  node("TopK", share " " whole("2"), weights " " chosen, "axis=-1 largest=1 sorted=1")
  weights = node("Div", weights " " node("ReduceSum", weights " " whole("-1"), "", "keepdims=1"))
  if (form == "looked-up") sum = look_up(flat, weights, chosen, h)
  else if (form == "all") sum = run_all(flat, gate_of(share, weights, chosen), h)
  else if (form == "each") {
    mask = gate_of(share, weights, chosen)
    sum = node("ConstantOfShape", node("Shape", flat))
    for (i = 0; i < 4; i++)
      sum = node("Add", sum " " node("Mul", perceive(flat, h, i) " " node("Slice", mask " " whole(i) " " whole(i + 1) " " whole("1"))))
  } else if (form == "selected") {
    mask = node("Transpose", node("OneHot", chosen " " one("4") " " whole("0 1"), "", "axis=-1"), "", "perm=2,1,0")
    sum = node("ConstantOfShape", node("Shape", flat))
    for (i = 0; i < 4; i++) sum = add_selected(sum, flat, weights, mask, i)
  } else {
    mask = node("Equal", node("Unsqueeze", chosen " " whole("-1")) " " whole("0 1 2 3"))
    mask = node("Transpose", node("Cast", mask, "", "to=7"), "", "perm=2,1,0")
    sum = node("Expand", real("0.0") " " node("Shape", flat))
    for (i = 0; i < 4; i++) sum = add_returned(sum, flat, weights, mask, h, i)
  }
  return node("Reshape", sum " " node("Shape", x))
}
BEGIN {
  opset = form == "selected" ? 17 : 18
  numbered = 646
  printf "ir_version: 8 producer_name: \"pytorch\" opset_import { version: %d } graph { name: \"experts\"\n", opset
  print "input { name: \"input_ids\" type { tensor_type { elem_type: INT64 shape { dim { dim_param: \"batch\" } dim { dim_value: 16 } } } } }"
  x = node("Gather", tensor("embed.weight", 0, "256 16", 1, 0) " input_ids", "", "axis=0")
  for (layer = 0; layer < 2; layer++)
    x = node("Add", x " " experts(norm(x, "norms." layer ".weight", 1 + 20 * layer), "moes." layer "."))
  node("Gemm", node("Reshape", norm(x, "norm.weight", 90) " " whole("-1 16")) " " tensor("head.weight", 91, "256 16", 0.5, 0), "flat", "transB=1")
  node("Reshape", "flat " whole("-1 16 256"), "logits")
  print "output { name: \"logits\" type { tensor_type { elem_type: FLOAT shape { dim { dim_param: \"batch\" } dim { dim_value: 16 } dim { dim_value: 256 } } } } } }"
}
