#!/usr/bin/env python3
"""Makes tests/data/onnx/vectors.txt: tests of the op versions 18 to 20 that Debian's ONNX suite lacks.

    expected-onnx.py      takes no arguments

Each is a model of one node (more where a type must be made), its inputs by formula, and what ONNX's own
reference evaluator computes of them, as texts that tests/support/make_onnx.c turns into the suite's files.

Needs the packages onnx (1.15) and numpy; tests need only the committed file.
"""
import os
import sys

if {"--help", "-h"} & set(sys.argv[1:]):
    print(__doc__)
    sys.exit()

import numpy as np
from onnx import AttributeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "data", "onnx", "vectors.txt")
KINDS = {"f": "FLOAT", "i": "INT", "s": 3, "t": "TENSOR", "ints": "INTS", "floats": "FLOATS"}
TYPES = {np.float32: "FLOAT", np.int64: "INT64", np.int32: "INT32", np.bool_: "BOOL", np.float16: "FLOAT16"}


def reals(*shape, scale=1.0, seed=0):
    """Numbers of [-scale, scale) that no power of two is a step of."""
    count = int(np.prod(shape))
    steps = (np.arange(count) * 37 + 11 + 17 * seed) % 101
    return ((steps / 50.5 - 1) * scale).astype(np.float32).reshape(shape)


def whole(*values):
    return np.array(values, np.int64)


def real_text(value):
    text = "%.9g" % value
    return text if any(c in text for c in ".en") else text + ".0"


def tensor_text(array, name=""):
    """A TensorProto: reals and int64 as raw data, the rest in varints."""
    kind = TYPES[array.dtype.type]
    flat = array.reshape(-1)
    text = "".join("dims: %d " % d for d in array.shape) + "data_type: " + kind
    if kind == "FLOAT":
        text += " raw_data: f32 [" + " ".join(real_text(v) for v in flat) + "]"
    elif kind == "INT64":
        text += " raw_data: i64 [" + " ".join("%d" % v for v in flat) + "]"
    else:
        bits = flat.view(np.uint16) if kind == "FLOAT16" else flat
        text += " int32_data: [" + " ".join("%d" % v for v in bits) + "]"
    return text + (' name: "%s"' % name if name else "")


def attribute_text(a):
    if a.type == AttributeProto.FLOAT:
        return 'name: "%s" f: %s type: FLOAT' % (a.name, real_text(a.f))
    if a.type == AttributeProto.INT:
        return 'name: "%s" i: %d type: INT' % (a.name, a.i)
    if a.type == AttributeProto.STRING:
        return 'name: "%s" s: "%s" type: 3' % (a.name, a.s.decode())
    if a.type == AttributeProto.TENSOR:
        return 'name: "%s" t { %s } type: TENSOR' % (a.name, tensor_text(numpy_helper.to_array(a.t)))
    if a.type == AttributeProto.INTS:
        return 'name: "%s" %s type: INTS' % (a.name, " ".join("ints: %d" % i for i in a.ints))
    return 'name: "%s" %s type: FLOATS' % (a.name, " ".join("floats: " + real_text(f) for f in a.floats))


def node_text(node):
    text = 'op_type: "%s"' % node.op_type
    text += "".join(' input: "%s"' % name for name in node.input)
    text += "".join(' output: "%s"' % name for name in node.output)
    return text + "".join(" attribute { %s }" % attribute_text(a) for a in node.attribute)


def value_text(name, array):
    dims = "".join(" dim { dim_value: %d }" % d for d in array.shape)
    return 'name: "%s" type { tensor_type { elem_type: %s shape {%s } } }' % (name, TYPES[array.dtype.type], dims)


class Maker:
    def __init__(self):
        self.text = []

    def add(self, name, version, op, inputs, outputs=1, constants=None, before=(), **attributes):
        """A test: `inputs` is what the node reads, None where an operand is left out; `constants`
        are operands that the model stores."""
        names = ["" if array is None else "x%d" % i for i, array in enumerate(inputs)]
        constants = constants or {}
        results = ["y%d" % i for i in range(outputs)]
        nodes = list(before) + [helper.make_node(op, names + list(constants), results, **attributes)]
        given = {n: a for n, a in zip(names, inputs) if n}
        infos = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
                 for n, a in given.items()]
        stored = [numpy_helper.from_array(a, n) for n, a in constants.items()]
        declared = [helper.make_tensor_value_info(r, TensorProto.UNDEFINED, None) for r in results]
        graph = helper.make_graph(nodes, name, infos, declared, stored)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=9)
        computed = [np.asarray(r) for r in ReferenceEvaluator(model).run(None, given)]
        self.text.append("#--- own/%s/model" % name)
        self.text.append("ir_version: 9 opset_import { version: %d }\ngraph {" % version)
        self.text += ["  node { %s }" % node_text(node) for node in nodes]
        self.text += ["  initializer { %s }" % tensor_text(a, n) for n, a in constants.items()]
        self.text += ["  input { %s }" % value_text(n, a) for n, a in given.items()]
        self.text += ["  output { %s }" % value_text(r, a) for r, a in zip(results, computed)]
        self.text.append("}")
        for i, array in enumerate(given.values()):
            self.text += ["#--- own/%s/input_%d" % (name, i), tensor_text(array)]
        for i, array in enumerate(computed):
            self.text += ["#--- own/%s/output_%d" % (name, i), tensor_text(array)]


def add_reductions(m):
    x = reals(2, 3, 4, scale=2)
    positive = np.abs(x) + np.float32(0.25)
    for op in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare"):
        data = positive if op == "LogSum" else x
        m.add("reduce_%s_18" % op.lower(), 18, "Reduce" + op, [data], constants={"axes": whole(1, -1)})
        m.add("reduce_%s_18_all" % op.lower(), 18, "Reduce" + op, [data], keepdims=0)
        if op not in ("L1", "L2", "LogSum"):  # which the evaluator leaves as they are, and numpy's axis=() does not
            m.add("reduce_%s_18_none" % op.lower(), 18, "Reduce" + op, [data], noop_with_empty_axes=1)
    truth = reals(2, 3, 4) > 0
    m.add("reduce_max_20_bool", 20, "ReduceMax", [truth], constants={"axes": whole(2)})
    m.add("reduce_min_20_bool", 20, "ReduceMin", [truth], constants={"axes": whole(0)}, keepdims=0)


def add_images(m):
    x = reals(1, 2, 5, 7, seed=3)

    def resize(name, version, scales=None, sizes=None, **attributes):
        if sizes is None:
            m.add(name, version, "Resize", [x, None], constants={"scales": np.array(scales, np.float32)},
                  **attributes)
        else:
            m.add(name, version, "Resize", [x, None, None], constants={"sizes": whole(*sizes)}, **attributes)

    for mode in ("nearest", "linear", "cubic"):
        resize("resize_18_%s_axes" % mode, 18, scales=[1.6, 0.6], axes=[3, 2], mode=mode)
        for policy in ("not_larger", "not_smaller"):
            resize("resize_18_%s_%s" % (mode, policy), 18, sizes=[8, 8], axes=[2, 3], mode=mode,
                   keep_aspect_ratio_policy=policy)
        resize("resize_19_%s_symmetric" % mode, 19, scales=[1, 1, 0.7, 1.3], mode=mode,
               coordinate_transformation_mode="half_pixel_symmetric")
    for mode in ("linear", "cubic"):
        resize("resize_18_%s_antialias" % mode, 18, scales=[1, 1, 0.4, 0.55], mode=mode, antialias=1)
        resize("resize_18_%s_antialias_excluding" % mode, 18, sizes=[1, 2, 3, 9], mode=mode, antialias=1,
               exclude_outside=1)
    for pads in (0, 1):
        m.add("average_pool_19_dilations_%d" % pads, 19, "AveragePool", [reals(1, 2, 8, 9, seed=1)],
              kernel_shape=[2, 3], dilations=[3, 2], strides=[1, 2], pads=[1, 2, 0, 1], count_include_pad=pads)


def add_moves(m):
    x = reals(2, 3, 4, seed=2)
    for mode in ("constant", "reflect", "edge"):
        stored = {"pads": whole(1, 2, 2, 1)}
        stored["value"] = np.array(0.5, np.float32)
        stored["axes"] = whole(-1, 1)
        m.add("pad_18_%s_axes" % mode, 18, "Pad", [x], constants=stored, mode=mode)
    m.add("pad_19_wrap", 19, "Pad", [x], constants={"pads": whole(0, 2, 3, 1, 1, 2)}, mode="wrap")
    m.add("split_18_outputs", 18, "Split", [reals(2, 7)], outputs=3, axis=1, num_outputs=3)
    m.add("reshape_19", 19, "Reshape", [x], constants={"shape": whole(0, -1)})
    m.add("reshape_19_zero", 19, "Reshape", [x], constants={"shape": whole(4, 3, 2)}, allowzero=1)
    m.add("shape_19", 19, "Shape", [x], start=1, end=-1)
    m.add("size_19", 19, "Size", [x])
    m.add("identity_19", 19, "Identity", [x])
    m.add("constant_19", 19, "Add", [reals(3)], constants={"c": np.array([0.5, -1.5, 2.25], np.float32)},
          before=[helper.make_node("Constant", [], ["unused"], value_floats=[1.5, 2.0])])
    indices = np.array([[0, 2, 1, 0], [1, 1, 2, 2]], np.int64)
    updates = reals(2, 4, scale=2, seed=5)
    rows = np.array([[0], [2], [0]], np.int64)
    for how in ("max", "min", "add", "mul", "none"):
        if how in ("max", "min", "add"):  # the evaluator takes mul for none
            m.add("scatter_elements_18_%s" % how, 18, "ScatterElements", [reals(3, 4)], axis=0, reduction=how,
                  constants={"indices": indices, "updates": updates})
        unique = np.array([[0], [2]], np.int64) if how == "none" else rows
        m.add("scatter_nd_18_%s" % how, 18, "ScatterND", [reals(3, 4)], reduction=how,
              constants={"indices": unique, "updates": reals(len(unique), 4, scale=2, seed=6)})


def add_pointwise(m):
    x = reals(3, 5, scale=3, seed=4)
    wild = np.array([0.5, np.nan, np.inf, -np.inf, -2.0], np.float32)
    m.add("cast_19_half", 19, "Cast", [x], to=TensorProto.FLOAT16)
    m.add("cast_19_integer", 19, "Cast", [x], to=TensorProto.INT32)
    m.add("cast_19_bool", 19, "Cast", [x], to=TensorProto.BOOL)
    m.add("cast_like_19", 19, "CastLike", [x, np.array([0.5], np.float16)])
    m.add("equal_19_bool", 19, "Equal", [x > 0, reals(5) > 0])
    m.add("equal_19_integer", 19, "Equal", [np.arange(6, dtype=np.int32) % 3, np.arange(6, dtype=np.int32) % 2])
    m.add("is_inf_20", 20, "IsInf", [wild])
    m.add("is_inf_20_negative_half", 20, "IsInf", [wild.astype(np.float16)], detect_positive=0)
    m.add("is_nan_20", 20, "IsNaN", [wild])
    m.add("is_nan_20_half", 20, "IsNaN", [wild.astype(np.float16)])
    m.add("gelu_20", 20, "Gelu", [x])
    m.add("gelu_20_tanh", 20, "Gelu", [x], approximate="tanh")
    m.add("mish_18", 18, "Mish", [x])
    value = helper.make_tensor("v", TensorProto.FLOAT, [1], [0.75])
    m.add("constant_of_shape_20", 20, "Add", [reals(2, 3), reals(2, 3, seed=1)],
          before=[helper.make_node("Shape", ["x0"], ["s"]),
                  helper.make_node("ConstantOfShape", ["s"], ["c"], value=value)])
    m.add("group_normalization_18", 18, "GroupNormalization", [reals(2, 6, 4), reals(3, seed=1), reals(3, seed=2)],
          num_groups=3, epsilon=1e-3)


def main():
    maker = Maker()
    maker.text += ["# Tests of op versions that Debian's ONNX suite lacks, made by scripts/expected-onnx.py with the",
                   "# reference evaluator of ONNX 1.15: a model, its inputs, its outputs. tests/suite/unpack.sh makes",
                   "# the suite's files of them."]
    for add in (add_reductions, add_images, add_moves, add_pointwise):
        add(maker)
    with open(PATH, "w") as file:
        file.write("\n".join(maker.text) + "\n")


if __name__ == "__main__":
    main()
