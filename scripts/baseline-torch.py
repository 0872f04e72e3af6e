#!/usr/bin/env python3
"""What PyTorch reaches on the works of scripts/gpu-bench.sh, for its option --baseline.

    baseline-torch.py WORK MICRO_BATCH STEPS [--device cpu --small]
    baseline-torch.py gpt2-124m MICRO_BATCH STEPS [--batch N] --curve INIT TEXT SEED [--rate X]

Trains random weights on random samples as one would by hand for speed: torch.compile, scaled_dot_product_attention, the
fused optimizer, bf16 by autocast over f32 weights; of llama-3-8b bf16 weights without an f32 copy under Adafactor, whose state is
averages of rows and columns (the program's state with --masters none), its layers recomputed only where it does not fit otherwise; of
resnet-50 channels last. A step has as many samples as those of scripts/gpu-bench-folders.sh. Prints
the tokens (images) per second of the median step behind the first fifth, and the most bytes that the allocator held.
--mode is torch.compile's: max-autotune-no-cudagraphs measures matrix products and takes the fastest, as gpu-bench.sh has braid's programs do.
--attention cudnn or flash has scaled_dot_product_attention use that library alone; without it PyTorch chooses.
--small shrinks the models, to see that this program works.
With --curve the weights are those of a safetensors file with the names of Hugging Face, the samples those that a program trained
with this seed takes of the text, a byte a token; the losses of the steps are printed, `loss X` a line. Nothing is compiled.
"""
import argparse
import gc
import json
import os
import statistics
import struct
import sys
import time

if {"--help", "-h"} & set(sys.argv[1:]):
    print(__doc__)
    sys.exit()

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

BATCH = {"gpt2-124m": 64, "gpt2-1558m": 16, "llama-3-8b": 2, "resnet-50": 256}


class Gpt2Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.qkv(self.norm1(x)).split(c, 2))
        a = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(b, t, c))
        return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, layers, width, heads, length, vocabulary=50257):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Gpt2Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return functional.rms_norm(x, self.gain.shape, self.gain, 1e-5)


class LlamaBlock(nn.Module):
    def __init__(self, width, heads, groups, hidden):
        super().__init__()
        self.heads, self.groups, self.head = heads, groups, width // heads
        self.norm1, self.norm2 = RmsNorm(width), RmsNorm(width)
        self.q = nn.Linear(width, width, bias=False)
        self.kv = nn.Linear(width, 2 * groups * self.head, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate_up, self.down = nn.Linear(width, 2 * hidden, bias=False), nn.Linear(hidden, width, bias=False)

    def forward(self, x, cos, sin):
        b, t, c = x.shape
        h = self.norm1(x)
        q = self.q(h).view(b, t, self.heads, self.head).transpose(1, 2)
        k, v = self.kv(h).view(b, t, 2, self.groups, self.head).permute(2, 0, 3, 1, 4)
        q, k = (z * cos + torch.cat((-z[..., self.head // 2:], z[..., :self.head // 2]), -1) * sin for z in (q, k))
        a = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.out(a.transpose(1, 2).reshape(b, t, c))
        gate, up = self.gate_up(self.norm2(x)).chunk(2, -1)
        return x + self.down(functional.silu(gate) * up)


class Llama(nn.Module):
    def __init__(self, layers, width, heads, groups, hidden, vocabulary=128256):
        super().__init__()
        self.head_width = width // heads
        self.tokens = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(LlamaBlock(width, heads, groups, hidden) for _ in range(layers))
        self.norm, self.head = RmsNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.recomputes = False

    def forward(self, tokens, targets):
        x, half = self.tokens(tokens), self.head_width // 2
        rate = 500000.0 ** (-torch.arange(half, device=x.device) / half)
        angle = torch.outer(torch.arange(tokens.shape[1], device=x.device), rate).repeat(1, 2)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        for block in self.blocks:
            x = checkpoint(block, x, cos, sin, use_reentrant=False) if self.recomputes else block(x, cos, sin)
        logits = self.head(self.norm(x))
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width))
        self.skip = nn.Sequential()
        if stride != 1 or inputs != 4 * width:
            self.skip = nn.Sequential(nn.Conv2d(inputs, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))

    def forward(self, x):
        return functional.relu(self.body(x) + self.skip(x))


class ResNet50(nn.Module):
    def __init__(self, width=64, classes=1000):
        super().__init__()
        layers = [nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
        inputs = width
        for stage, blocks in enumerate((3, 4, 6, 3)):
            for block in range(blocks):
                layers.append(Bottleneck(inputs, width << stage, 2 if stage and not block else 1))
                inputs = 4 * (width << stage)
        self.layers = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))

    def forward(self, images, targets):
        return functional.cross_entropy(self.layers(images), targets)


def model_of(work, small):
    """The model, and the shape of a sample."""
    if work == "gpt2-124m":
        return (Gpt2(2, 64, 4, 64), 64) if small else (Gpt2(12, 768, 12, 1024), 1024)
    if work == "gpt2-1558m":
        return (Gpt2(2, 100, 5, 64), 64) if small else (Gpt2(48, 1600, 25, 1024), 1024)
    if work == "llama-3-8b":
        return (Llama(2, 64, 4, 2, 128), 64) if small else (Llama(32, 4096, 32, 8, 14336), 8192)
    return (ResNet50(8), 64) if small else (ResNet50(), 224)


def samples_of(work, size, extent, device):
    if work == "resnet-50":
        images = torch.randn(size, 3, extent, extent, device=device).to(memory_format=torch.channels_last)
        return images, torch.randint(1000, (size,), device=device)
    tokens = torch.randint(50000, (size, extent + 1), device=device)
    return tokens[:, :-1], tokens[:, 1:]


def optimizer_of(work, model, device):
    fused = {"fused": True} if device == "cuda" else {}
    if work == "llama-3-8b":
        return torch.optim.Adafactor(model.parameters(), lr=1e-4)
    if work == "resnet-50":
        return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, **fused)
    return torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, **fused)


def window(seed, step, sample, positions):
    """Where a sample of a step starts: Philox4x32-10 in the domain of windows (docs/numerics.md)."""
    c, k = [sample, 0, step, 0x80000002], [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return ((c[1] << 32 | c[0]) * positions) >> 64


def read_weights(path):
    """The f32 tensors of a safetensors file."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = bytearray(file.read())
    header.pop("__metadata__", None)
    return {name: torch.frombuffer(data[slice(*row["data_offsets"])], dtype=torch.float32).reshape(row["shape"])
            for name, row in header.items()}


def gpt2_of(weights, heads):
    """The model that a Hugging Face file of GPT-2 holds, whose matrices are stored the other way."""
    layers = 1 + max(int(name.split(".")[1]) for name in weights if name.startswith("h."))
    vocabulary, width = weights["wte.weight"].shape
    model = Gpt2(layers, width, heads, weights["wpe.weight"].shape[0], vocabulary)
    parts = {"ln_1": "norm1", "ln_2": "norm2", "attn.c_attn": "qkv", "attn.c_proj": "out", "mlp.c_fc": "up", "mlp.c_proj": "down"}
    state = {"tokens.weight": weights["wte.weight"], "positions.weight": weights["wpe.weight"],
             "norm.weight": weights["ln_f.weight"], "norm.bias": weights["ln_f.bias"], "head.weight": weights["wte.weight"]}
    for layer in range(layers):
        for theirs, ours in parts.items():
            for kind in "weight", "bias":
                value = weights[f"h.{layer}.{theirs}.{kind}"]
                state[f"blocks.{layer}.{ours}.{kind}"] = value.T if value.dim() == 2 else value
    model.load_state_dict(state)
    return model


def print_curve(o):
    init, text, seed = o.curve
    with open(text, "rb") as file:
        text = file.read()
    model = gpt2_of(read_weights(init), o.heads).to(o.device)
    length = model.positions.weight.shape[0]
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], lr=o.rate,
                                  betas=(0.9, 0.95), eps=1e-8, fused=o.device == "cuda" or None)
    batch = o.batch or BATCH[o.work]
    for step in range(o.steps):
        starts = [window(int(seed), step, sample, len(text) - length) for sample in range(batch)]
        tokens = torch.tensor([list(text[at:at + length + 1]) for at in starts], device=o.device)
        optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for part in tokens.split(o.micro_batch):
            with torch.autocast(o.device, torch.bfloat16, enabled=not o.small):
                loss = model(part[:, :-1], part[:, 1:]) * (len(part) / batch)
            loss.backward()
            total += loss.item()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(f"loss {total:.9g}")


def choose_attention(library):
    kinds = {"cudnn": torch.backends.cuda.enable_cudnn_sdp, "flash": torch.backends.cuda.enable_flash_sdp,
             "efficient": torch.backends.cuda.enable_mem_efficient_sdp, "math": torch.backends.cuda.enable_math_sdp}
    for kind, enable in kinds.items():
        enable(kind == library)


def measure(o, recomputes):
    """Seconds of each step, and tokens (images) of one."""
    halves = o.work == "llama-3-8b"
    torch.set_default_dtype(torch.bfloat16 if halves else torch.float32)
    with torch.device(o.device):
        model, extent = model_of(o.work, o.small)
    torch.set_default_dtype(torch.float32)
    model.recomputes = recomputes
    if o.work == "resnet-50":
        model = model.to(memory_format=torch.channels_last)
    optimizer = optimizer_of(o.work, model, o.device)
    forward = model if o.small else torch.compile(model, mode=o.mode)
    turns = BATCH[o.work] // o.micro_batch
    seconds = []
    for _ in range(o.steps):
        batches = [samples_of(o.work, o.micro_batch, extent, o.device) for _ in range(turns)]
        if o.device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        for inputs, targets in batches:
            with torch.autocast(o.device, torch.bfloat16, enabled=not halves):
                loss = forward(inputs, targets) / turns
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.item()
        if o.device == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return seconds, o.micro_batch * turns * (1 if o.work == "resnet-50" else extent)


def measure_fitting(o):
    """Without recomputation of layers, or with it, where the first does not fit."""
    if o.work != "llama-3-8b":
        return measure(o, False)
    try:
        return measure(o, False)
    except torch.OutOfMemoryError:
        pass
    gc.collect()
    torch.compiler.reset()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    return measure(o, True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", choices=sorted(BATCH))
    parser.add_argument("micro_batch", type=int)
    parser.add_argument("steps", type=int)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--mode", choices=["max-autotune", "max-autotune-no-cudagraphs"])
    parser.add_argument("--attention", choices=["cudnn", "flash"])
    parser.add_argument("--curve", nargs=3, metavar=("INIT", "TEXT", "SEED"))
    parser.add_argument("--rate", type=float, default=1e-4)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--batch", type=int)
    o = parser.parse_args()
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = True
    if o.attention:
        choose_attention(o.attention)
    if o.curve:
        print_curve(o)
    else:
        seconds, tokens = measure_fitting(o)
        step = statistics.median(seconds[len(seconds) // 5:])
        print(f"tokens_per_second {tokens / step:.6g}")
        print(f"peak_bytes {torch.cuda.max_memory_allocated() if o.device == 'cuda' else 0}")
    # Without waiting for the compiler's workers, which can take a minute to end.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
