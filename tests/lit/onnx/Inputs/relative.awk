# The text of an ONNX model of x [N, T, T, 2] that adds to it, by how far each column is from its row: rows of a table, looked
# up by buckets of T5's kind (8 of them, up to a distance of 20), a window of 5, the distance itself, and its cosine.
function node(op, to, a, b, c, rest) {
  printf "node { op_type: \"%s\" input: \"%s\"%s%s output: \"%s\" %s }\n", op, a, b ? " input: \"" b "\"" : "",
    c ? " input: \"" c "\"" : "", to, rest
}
function integer(name, value, list) {
  printf "initializer { name: \"%s\" %sdata_type: INT64 int64_data: %d }\n", name, list ? "dims: 1 " : "", value
}
function real(name, value) {
  printf "initializer { name: \"%s\" data_type: FLOAT raw_data: f32 [%.9f] }\n", name, value
}
function cast(to, from, type) {
  node("Cast", to, from, "", "", "attribute { name: \"to\" i: " type " type: INT }")
}
BEGIN {
  print "ir_version: 8 opset_import { version: 14 } graph {"
  print "input { name: \"x\" type { tensor_type { elem_type: FLOAT shape { dim { dim_param: \"N\" } dim { dim_param: \"T\" } dim { dim_param: \"T\" } dim { dim_value: 2 } } } } }"
  print "initializer { name: \"table\" dims: 8 dims: 2 data_type: FLOAT raw_data: f32 [0.5 1.0 0.25 -1.0 2.0 3.0 -0.5 0.125 4.0 5.0 -6.0 7.0 8.0 -9.0 10.0 11.0] }"
  integer("zero", 0); integer("one", 1); integer("two", 2); integer("three", 3); integer("four", 4)
  integer("first", 0, 1); integer("second", 1, 1); integer("last", 3, 1); integer("least", -5)
  real("exact", 2); real("span", log(10)); real("more", 2); real("near", 0); real("far", -100)
  node("Shape", "shape", "x")
  node("Gather", "length", "shape", "one", "", "attribute { name: \"axis\" i: 0 type: INT }")
  node("Range", "places", "zero", "length", "one")
  node("Unsqueeze", "row", "places", "second")
  node("Unsqueeze", "column", "places", "first")
  node("Sub", "distance", "column", "row")
  # Half of the buckets for keys behind the query.
  node("Greater", "behind", "distance", "zero")
  cast("side", "behind", 7)
  node("Mul", "offset", "side", "four")
  node("Abs", "far_from", "distance")
  node("Less", "is_near", "far_from", "two")
  cast("real_far", "far_from", 1)
  node("Div", "share", "real_far", "exact")
  node("Log", "log", "share")
  node("Div", "part", "log", "span")
  node("Mul", "scaled", "part", "more")
  cast("steps", "scaled", 7)
  node("Add", "grown", "steps", "two")
  node("Min", "bounded", "grown", "three")
  node("Where", "bucket", "is_near", "far_from", "bounded")
  node("Add", "buckets", "bucket", "offset")
  node("Gather", "biases", "table", "buckets", "", "attribute { name: \"axis\" i: 0 type: INT }")
  node("Add", "a", "x", "biases")
  # Up to 5 before, none behind.
  node("LessOrEqual", "before", "column", "row")
  node("GreaterOrEqual", "within", "distance", "least")
  node("And", "seen", "before", "within")
  node("Where", "window", "seen", "near", "far")
  node("Unsqueeze", "windows", "window", "two_list")
  integer("two_list", 2, 1)
  node("Add", "b", "a", "windows")
  cast("real", "distance", 1)
  node("Unsqueeze", "reals", "real", "two_list")
  node("Add", "c", "b", "reals")
  node("Cos", "cosine", "real")
  node("Unsqueeze", "cosines", "cosine", "two_list")
  node("Add", "y", "c", "cosines")
  print "output { name: \"y\" } }"
}
