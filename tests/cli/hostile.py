"""Hostile text in every name that a file or an argument can carry.

    hostile.py BRAID [PART...]      parts: graphs texts configs plans clusters arguments programs; all of them

Each run ends in success or in exactly one diagnostic with its documented status; whatever is printed is
printable; nothing is half-written and nothing of a name runs. Sources that are emitted hold such text in
string literals only, escaped, and compile.
"""
import copy
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unicodedata

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import safetensors

BRAID = os.path.realpath(sys.argv[1])
PAYLOADS = {
    "comment": '*/ system("touch pwned"); /*',
    "newline": 'a\n#include "pwned.h"\nint pwned;',
    "quote": '"; system("touch pwned"); "',
    "apostrophe": "'; touch pwned; '",
    "backslash": 'x\\',
    "trigraph": '??/??" pwned ??/\n',
    "path": "../../pwned",
    "absolute": "/tmp/pwned",
    "escape": "\x1b[2J\x1b]0;pwned\x07\x7f",
    "shell": "$(touch pwned)`touch pwned`;touch pwned&|>pwned",
    "make": "$(shell touch pwned):#%$@",
    "format": "%s%n%1000000d",
    "dash": "--pwned",
    "bidi": "\u202epwned\u2066\u200b",
    "c1": "\u0085\u009b2Jpwned",
    "empty": "",
    "long": "p" * 5000,
    "space": " pwned ",
}
MODEL = {
    "braid_model": 1,
    "name": "model",
    "inputs": [{"name": "x", "kind": "reals", "dims": ["B", 4]}, {"name": "y", "kind": "targets", "dims": ["B"]}],
    "weights": [{"name": "w", "dims": [4, 3], "init": "normal", "stored": "stored"}],
    "functions": [{
        "name": "f",
        "params": [{"name": "x", "dims": ["B", 4]}, {"name": "t", "dtype": "i32", "dims": ["B"]},
                   {"name": "w", "dims": [4, 3]}],
        "ops": [{"op": "contract", "in": ["x", "w"], "out": "z", "attrs": {"rule": "bc,cv->bv"}},
                {"op": "lse", "in": ["z"], "out": "l"},
                {"op": "xent", "in": ["z", "t", "l"], "out": "sum"}],
        "results": ["sum"]}],
    "main": [{"call": "f", "in": ["x", "y", "w"], "out": "loss"}],
    "loss": "loss",
}
GPT2 = {"model_type": "gpt2", "vocab_size": 64, "n_positions": 16, "n_embd": 16, "n_layer": 1, "n_head": 2}
LLAMA = {"model_type": "llama", "vocab_size": 64, "max_position_embeddings": 16, "hidden_size": 16,
         "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
         "rope_scaling": {"rope_type": "default"}}
CLUSTER = ["--cluster", "cpu:1x1", "--global-batch", "4"]
runs = 0


def sites(tree):
    """A path for every kind of string, and one key of every kind of object, of a JSON document."""
    seen = set()
    for path, is_key in strings(tree):
        kind = tuple(step for step in (path[:-1] if is_key else path) if isinstance(step, str)), is_key
        if kind not in seen:
            seen.add(kind)
            yield path, is_key


def strings(tree, path=()):
    """The paths of all strings and keys of a JSON document."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield path + (key,), True
            yield from strings(value, path + (key,))
    elif isinstance(tree, list):
        for index, value in enumerate(tree):
            yield from strings(value, path + (index,))
    elif isinstance(tree, str):
        yield path, False


def replaced(tree, path, is_key, text):
    tree = copy.deepcopy(tree)
    at = tree
    for step in path[:-1]:
        at = at[step]
    if is_key:
        at[text] = at.pop(path[-1])
    else:
        at[path[-1]] = text
    return tree


def expect(good, what, *about):
    if not good:
        sys.exit("hostile.py: %s: %s" % (what, " ".join(ascii(a) for a in about)))


def check_printable(output, what):
    try:
        text = output.decode()
    except UnicodeDecodeError:
        expect(False, "not UTF-8", what, output)
    for character in text:
        expect(character == "\n" or unicodedata.category(character) not in ("Cc", "Cf", "Zl", "Zp"),
               "prints a control character", what, output)


def check_sources(folder, what):
    for name in os.listdir(folder):
        if not name.endswith((".c", ".h", ".s", ".ll")) and name != "Makefile":
            continue
        with open(os.path.join(folder, name), "rb") as file:
            source = file.read()
        rest = re.sub(rb'"(\\.|[^"\\\n])*"', b'""', source)
        expect(b"pwned" not in rest and b"system" not in rest, "a name is outside of strings", what, name)
        expect(b"??" not in source, "a trigraph", what, name)
        expect(all(byte in b"\n\t" or 32 <= byte < 127 for byte in source), "unprintable source", what, name)
    for name in ("main.c", "stage0.c"):
        compiled = subprocess.run(["gcc", "-std=c11", "-D_GNU_SOURCE", "-Werror", "-Wall", "-fsyntax-only", "-I.", name],
                                  cwd=folder, capture_output=True)
        expect(compiled.returncode == 0, "does not compile", what, compiled.stderr)


def run(what, arguments, statuses=(0, 1), produces=None, env=None):
    """One run of braid; returns its status."""
    global runs
    runs += 1
    before = set(os.listdir("."))
    done = subprocess.run([BRAID, *arguments], capture_output=True, stdin=subprocess.DEVNULL, timeout=120, env=env)
    expect(done.returncode in statuses, "status %d" % done.returncode, what, done.stderr)
    check_printable(done.stdout, what)
    check_printable(done.stderr, what)
    errors = [line for line in done.stderr.split(b"\n") if b"error:" in line or line.startswith(b"braid:")]
    expect(len(errors) == (1 if done.returncode else 0), "not one diagnostic", what, done.stderr)
    left = set(os.listdir(".")) - before - ({produces} if done.returncode == 0 else set())
    expect(not left, "leaves files", what, sorted(left))
    expect(not os.path.exists("pwned") and not os.path.exists("/tmp/pwned") and not os.path.exists("../../pwned"),
           "something ran", what)
    return done.returncode


def discard(path):
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.exists(path):
        os.remove(path)


def write_json(path, tree):
    with open(path, "w") as file:
        json.dump(tree, file)


def compile_model(what, model):
    """An accepted model is emitted, and its sources are looked at."""
    if run(what, ["compile", model, *CLUSTER, "--emit", "graph", "-o", "out"], produces="out") != 0:
        return
    discard("out")
    if run(what, ["compile", model, *CLUSTER, "--emit", "c", "-o", "out"], produces="out") == 0:
        check_sources("out", what)
        run(what, ["explain", "out"], statuses=(0,))
        discard("out")
    if run(what, ["init", model, "-o", "init.safetensors"], produces="init.safetensors") == 0:
        discard("init.safetensors")


def graphs():
    for path, is_key in list(sites(MODEL)):
        for name, payload in PAYLOADS.items():
            write_json("model.json", replaced(MODEL, path, is_key, payload))
            compile_model(("json", path, is_key, name), "model.json")


def texts():
    subprocess.run([BRAID, "compile", "model.json", "--emit", "graph", "-o", "good.braid"], check=True)
    with open("good.braid") as file:
        good = file.read()
    quoted = lambda text: json.dumps(text)
    for name, payload in PAYLOADS.items():
        for site, changed in (("module", good.replace('"model"', quoted(payload), 1)),
                              ("stored", good.replace('"stored"', quoted(payload))),
                              ("raw module", good.replace('"model"', '"%s"' % payload, 1)),
                              ("function", good.replace("@f", "@" + payload)),
                              ("value", good.replace("%z", "%" + payload)),
                              ("weight", good.replace("@w", "@" + payload))):
            with open("model.braid", "w") as file:
                file.write(changed)
            compile_model(("text", site, name), "model.braid")
    discard("good.braid")
    discard("model.braid")


def configs():
    for config in (dict(GPT2, activation_function="gelu_new", architectures=["GPT2LMHeadModel"], torch_dtype="float32"),
                   LLAMA):
        for path, is_key in list(sites(config)):
            for name, payload in PAYLOADS.items():
                os.mkdir("folder")
                write_json("folder/config.json", replaced(config, path, is_key, payload))
                compile_model(("config", path, is_key, name), "folder")
                discard("folder")
    for name, payload in PAYLOADS.items():
        # The folder's own name becomes the model's.
        folder = payload.replace("/", "_")[:200]
        if folder:
            os.mkdir(folder)
            write_json(os.path.join(folder, "config.json"), GPT2)
            compile_model(("folder name", name), "./" + folder)
            discard(folder)
        safetensors.gpt2("folder", 1, 16, 2, 16, 64)
        tensors = safetensors.read("folder/model.safetensors")
        tensors[payload] = tensors.pop("wte.weight")
        safetensors.write("folder/model.safetensors", tensors)
        compile_model(("tensor", name), "folder")
        os.remove("folder/model.safetensors")
        for index in ({"weight_map": {"wte.weight": payload}}, {"weight_map": {payload: "model-1.safetensors"}},
                      {"weight_map": {}, payload: payload}):
            write_json("folder/model.safetensors.index.json", index)
            compile_model(("index", name), "folder")
        discard("folder")


def plans():
    subprocess.run([BRAID, "compile", "model.json", *CLUSTER, "--emit", "plan", "-o", "good.json"], check=True)
    with open("good.json") as file:
        good = json.load(file)
    for path, is_key in list(sites(good)):
        for name, payload in PAYLOADS.items():
            what = "plan", path, is_key, name
            write_json("plan.json", replaced(good, path, is_key, payload))
            run(what, ["explain", "plan.json"])
            if run(what, ["compile", "model.json", "--cluster", "cpu:1x1", "--plan", "plan.json", "--emit", "c", "-o", "out"],
                   produces="out") == 0:
                check_sources("out", what)
                discard("out")
    # The name of a strategy where layers use it, too.
    for name, payload in PAYLOADS.items():
        plan = copy.deepcopy(good)
        plan["strategies"][0]["name"] = plan["layers"][0]["strategy"] = payload
        write_json("plan.json", plan)
        run(("strategy", name), ["explain", "plan.json"])
        for emit in ("sharded", "exec", "c"):
            if run(("strategy", name), ["compile", "model.json", "--cluster", "cpu:1x1", "--plan", "plan.json", "--emit", emit,
                                        "-o", "out"], produces="out") == 0:
                if emit == "c":
                    check_sources("out", ("strategy", name))
                discard("out")
    discard("plan.json")
    discard("good.json")


def clusters():
    cluster = {"name": "mine", "nodes": 1, "devices_per_node": 1, "memory_bytes": 1 << 33, "reserved_bytes": 0,
               "flops_f32": 1e10, "flops_bf16": 1e10, "memory_bytes_per_second": 1e10, "kernel_seconds": 1e-6,
               "intra": {"latency_seconds": 1e-6, "bytes_per_second": 1e9},
               "inter": {"latency_seconds": 1e-6, "bytes_per_second": 1e9}}
    for path, is_key in list(sites(cluster)):
        for name, payload in PAYLOADS.items():
            write_json("cluster.json", replaced(cluster, path, is_key, payload))
            run(("cluster", path, name), ["compile", "model.json", "--cluster", "cluster.json", "--global-batch", "4", "--emit",
                                          "plan", "-o", "out"], produces="out")
            discard("out")
    discard("cluster.json")


def arguments():
    """Words of the command line, and paths with such names."""
    os.mkdir("bin")
    with open("bin/mpicc", "w") as file:
        file.write('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\n: >"$2"\n')
    os.chmod("bin/mpicc", 0o755)
    env = dict(os.environ, PATH=os.path.abspath("bin") + ":" + os.environ["PATH"])
    for name, payload in PAYLOADS.items():
        run(("model", name), ["compile", "--emit", "graph", *CLUSTER, "--", payload])
        run(("preset", name), ["compile", "model.json", "--cluster=" + payload, "--global-batch", "4"], statuses=(1, 2))
        for option in ("--mesh", "--target", "--schedule", "--emit", "--memory-cap", "--seq", "--plan"):
            run((option, name), ["compile", "model.json", *CLUSTER, option + "=" + payload, "-o", "out"], statuses=(1, 2))
        run(("command", name), [payload], statuses=(2,))
        run(("option", name), ["compile", "model.json", "--x" + payload], statuses=(2,))
        run(("explain", name), ["explain", "--", payload], statuses=(1,))
        run(("opt", name), ["opt", "--passes=" + payload, "--", payload], statuses=(1, 2))
        run(("run", name), ["run", "--", payload], statuses=(1,))
        if name in ("long", "empty"):
            continue
        path = payload.replace("/", "_")
        if run(("out", name), ["compile", "model.json", *CLUSTER, "-o", "./" + path], statuses=(0,), produces=path,
               env=env) == 0:
            check_sources(path, ("out", name))
            discard(path)
        if run(("out file", name), ["compile", "model.json", *CLUSTER, "--emit", "plan", "-o", "./" + path], statuses=(0,),
               produces=path) == 0:
            discard(path)
    discard("bin")


def programs():
    """Paths handed to a trained program."""
    subprocess.run([BRAID, "compile", "model.json", *CLUSTER, "-o", "program"], check=True)
    for name, payload in PAYLOADS.items():
        if name == "long":
            continue
        for option in ("--data", "--init", "--save", "--metrics", "--report", "--tokenizer"):
            path = "none/" + payload if option in ("--save", "--metrics", "--report") else payload
            rest = ["--steps", "1" if option == "--data" else "0"]
            run((option, name), ["run", "program", *rest, option + "=" + path], statuses=(2, 4, 12))


def main():
    root = tempfile.mkdtemp()
    work = os.path.join(root, "a", "b")
    os.makedirs(work)
    os.chdir(work)
    try:
        for part in (graphs, texts, configs, plans, clusters, arguments, programs):
            if sys.argv[2:] and part.__name__ not in sys.argv[2:]:
                continue
            before = runs
            write_json("model.json", MODEL)
            part()
            print("%-10s %5d runs" % (part.__name__, runs - before), flush=True)
    finally:
        os.chdir("/")
        shutil.rmtree(root)


main()
