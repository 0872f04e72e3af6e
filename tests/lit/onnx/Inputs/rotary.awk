# The text of an ONNX model that turns x [N, T, 16], or the first `part` elements of 16, by tables of 300 places; the first
# of them is `from`.
function table(name, sine,   place, i, angle) {
  printf "node { op_type: \"Constant\" output: \"%s\" attribute { name: \"value\" type: TENSOR t { dims: 300 dims: %d data_type: FLOAT raw_data: f32 [", name, width
  for (place = 0; place < 300; place++)
    for (i = 0; i < width; i++) {
      angle = (place + from) * 500 ^ (-2 * (i % (width / 2)) / width)
      printf " %.12f", sine ? sin(angle) : cos(angle)
    }
  print " ] } } }"
}
function slice(to, x, from, end, axis) {
  printf "node { op_type: \"Slice\" input: \"%s\" input: \"%s\" input: \"%s\" input: \"%s\" output: \"%s\" }\n", x, from, end, axis, to
}
function number(name, value) {
  printf "initializer { name: \"%s\" dims: 1 data_type: INT64 int64_data: %d }\n", name, value
}
function binary(op, to, a, b, rest) {
  printf "node { op_type: \"%s\" input: \"%s\" input: \"%s\" output: \"%s\" %s }\n", op, a, b, to, rest
}
BEGIN {
  width = part ? part : 16
  x = part ? "begin" : "x"
  print "ir_version: 8 opset_import { version: 14 } graph {"
  print "input { name: \"x\" type { tensor_type { elem_type: FLOAT shape { dim { dim_param: \"N\" } dim { dim_param: \"T\" } dim { dim_value: 16 } } } } }"
  number("first", 0); number("middle", width / 2); number("part", width); number("end", 16); number("last", 2); number("rows", 0)
  table("cos", 0)
  table("sin", 1)
  print "node { op_type: \"Shape\" input: \"x\" output: \"shape\" }"
  number("one", 1); number("two", 2)
  slice("length", "shape", "one", "two", "rows")
  slice("c", "cos", "first", "length", "rows")
  slice("s", "sin", "first", "length", "rows")
  if (part) {
    slice("begin", "x", "first", "part", "last")
    slice("rest", "x", "part", "end", "last")
  }
  slice("left", x, "first", "middle", "last")
  slice("right", x, "middle", "part", "last")
  print "node { op_type: \"Neg\" input: \"right\" output: \"minus\" }"
  binary("Concat", "turned", "minus", "left", "attribute { name: \"axis\" i: -1 type: INT }")
  binary("Mul", "a", x, "c", "")
  binary("Mul", "b", "turned", "s", "")
  binary("Add", part ? "begun" : "y", "a", "b", "")
  if (part) binary("Concat", "y", "begun", "rest", "attribute { name: \"axis\" i: -1 type: INT }")
  print "output { name: \"y\" } }"
}
