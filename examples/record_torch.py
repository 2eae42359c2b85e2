"""Checks a port of V4.1's window attention to PyTorch: records it, and lets skim say where it goes wrong.

python examples/record_torch.py           # the port is right: everything passes
python examples/record_torch.py --wrong   # its queries turn with the wrong theta: q_rope is named, not what follows
"""
import argparse
import pathlib
import sys
import tempfile

import torch
from toy_attention import CONFIG, WEIGHTS, Attention

import skim
from skim.record import Recorder

# Submodules whose outputs are worth comparing, and what docs/cases.md calls them.
TENSORS = {"q_norm": "qr", "rotate_q": "q_rope"}


def record(path, wrong):
    """Two sequences: a prompt of 20 tokens, five more one by one, then another prompt."""
    torch.manual_seed(1)
    layers = [Attention(CONFIG, rope_theta=50000.0 if wrong else None) for _ in range(CONFIG["n_layers"])]
    recorder = Recorder(CONFIG)
    for i, layer in enumerate(layers):
        recorder.attach(layer, i, tensors=TENSORS, weights=WEIGHTS)
    with torch.no_grad():
        for prompt in (20, 7):
            recorder.reset()
            for layer in layers:
                layer.reset()
            for tokens in (prompt, 1, 1, 1, 1, 1):
                x = torch.randn(2, tokens, CONFIG["dim"]).bfloat16()
                for layer in layers:
                    x = torch.nn.functional.layer_norm(x + layer(x), (CONFIG["dim"],))
    recorder.save(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wrong", action="store_true", help="plant the mistake")
    parser.add_argument("--output", type=pathlib.Path, help="keep the recording here")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.output or pathlib.Path(folder) / "recording.safetensors"
        record(path, arguments.wrong)
        report = skim.verify(path, kernels="reference")
    print(report, end="")
    return 0 if report.passed else 1


if __name__ == "__main__":
    sys.exit(main())
