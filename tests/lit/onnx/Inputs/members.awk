# The text of an ONNX model whose sequences have many members: x [N, 1] is put into one `inserted` times, then `turns` times
# taken out of it and put in again; the whole is joined `joined` times. `expect`: what refused.sh is to find.
function node(op, to, a, b) {
  printf "node { op_type: \"%s\" %s%soutput: \"%s\"", op, a ? "input: \"" a "\" " : "", b ? "input: \"" b "\" " : "", to
  print (op == "ConcatFromSequence" ? " attribute { name: \"axis\" i: 1 type: INT }" : "") " }"
}
BEGIN {
  if (expect) print "# expect: " expect
  print "ir_version: 8 opset_import { domain: \"\" version: 17 } graph {"
  print "input { name: \"x\" type { tensor_type { elem_type: FLOAT shape { dim { dim_param: \"N\" } dim { dim_value: 1 } } } } }"
  node("SequenceEmpty", "q0")
  for (i = 1; i <= inserted + 2 * turns; i++)
    if (i > inserted && (i - inserted) % 2)
      node("SequenceErase", "q" i, "q" (i - 1))
    else
      node("SequenceInsert", "q" i, "q" (i - 1), "x")
  for (j = 1; j <= joined; j++)
    node("ConcatFromSequence", "y" j, "q" (i - 1))
  print "output { name: \"y1\" } }"
}
