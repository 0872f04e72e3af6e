#!/usr/bin/env python3
"""Prints the losses of a metrics file as a line of bars, and whether they fell."""
import json
import sys


def main():
    with open(sys.argv[1], encoding="utf-8") as lines:
        losses = [json.loads(line)["loss"] for line in lines]
    if not losses:
        sys.exit("no step was recorded")
    low, high = min(losses), max(losses)
    bars = "▁▂▃▄▅▆▇█"
    scale = (len(bars) - 1) / (high - low) if high > low else 0
    stride = max(1, -(-len(losses) // 72))
    print("".join(bars[round((loss - low) * scale)] for loss in losses[::stride]))
    middle = len(losses) // 2
    for step in sorted({0, middle, len(losses) - 1}):
        print(f"step {step + 1:4d}  loss {losses[step]:.4f}")
    if len(losses) > 1 and losses[-1] >= losses[0]:
        sys.exit("the loss did not fall")


if __name__ == "__main__":
    main()
