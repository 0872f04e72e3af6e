"""Small safetensors files with Python's standard library alone.

    safetensors.py rename IN OUT FROM TO    names that begin with FROM begin with TO instead
    safetensors.py gpt2 FOLDER              a Hugging Face folder of a tiny GPT-2 with random weights
"""
import json
import math
import os
import random
import struct
import sys


def read(path):
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(size))
        data = file.read()
    header.pop("__metadata__", None)
    return {name: (about["dtype"], about["shape"], data[slice(*about["data_offsets"])])
            for name, about in header.items()}


def write(path, tensors):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in tensors.values():
            file.write(data)


def rename(source, target, old, new):
    write(target, {new + name[len(old):] if name.startswith(old) else name: tensor
                   for name, tensor in read(source).items()})


def gpt2(folder, layers=2, width=32, heads=4, positions=64, vocabulary=256):
    rng = random.Random(1)

    def normal(*shape):
        values = [rng.gauss(0, 0.02) for _ in range(math.prod(shape))]
        return "F32", list(shape), struct.pack(f"<{len(values)}f", *values)

    def constant(value, *shape):
        return "F32", list(shape), struct.pack("<f", value) * math.prod(shape)

    tensors = {"wte.weight": normal(vocabulary, width), "wpe.weight": normal(positions, width)}
    for layer in range(layers):
        for name, inputs, outputs in (("attn.c_attn", width, 3 * width), ("attn.c_proj", width, width),
                                      ("mlp.c_fc", width, 4 * width), ("mlp.c_proj", 4 * width, width)):
            tensors[f"h.{layer}.{name}.weight"] = normal(inputs, outputs)
            tensors[f"h.{layer}.{name}.bias"] = constant(0, outputs)
        for name in ("ln_1", "ln_2"):
            tensors[f"h.{layer}.{name}.weight"] = constant(1, width)
            tensors[f"h.{layer}.{name}.bias"] = constant(0, width)
    tensors["ln_f.weight"], tensors["ln_f.bias"] = constant(1, width), constant(0, width)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump({"model_type": "gpt2", "vocab_size": vocabulary, "n_positions": positions,
                   "n_embd": width, "n_layer": layers, "n_head": heads}, file)
    write(os.path.join(folder, "model.safetensors"), tensors)


if __name__ == "__main__":
    if len(sys.argv) == 6 and sys.argv[1] == "rename":
        rename(*sys.argv[2:])
    elif len(sys.argv) == 3 and sys.argv[1] == "gpt2":
        gpt2(sys.argv[2])
    else:
        sys.exit(__doc__)
