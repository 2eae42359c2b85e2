#!/usr/bin/env python3
"""What a forward call from Python costs more than the same call from C++, in microseconds.

python bench/peers/python_overhead.py [build/release/bench/peers/forward_call]

One token, layer 0 of v41-tiny, one thread. The lowest tenth of 2,000 calls, C++ and Python by turns, of which the best
round of each counts: others share the machine. Exit status 1 if any kind of array costs 20 microseconds or more.
"""
import pathlib
import subprocess
import sys
import time

import numpy as np

import skim

ROUNDS, CALLS, ALLOWED = 9, 2000, 20.0


def arrays():
    """One row of hidden states by kind of array, and a row for the output."""
    x = np.array(skim.synthetic_input("x", (1, skim.named_config("v41-tiny").dim)))
    yield "numpy uint16", x, np.empty_like(x)
    yield "numpy uint16, new output", x, None
    try:
        import ml_dtypes

        yield "ml_dtypes bfloat16", x.view(ml_dtypes.bfloat16), np.empty_like(x).view(ml_dtypes.bfloat16)
    except ImportError:
        pass
    try:
        import torch

        tensor = torch.from_numpy(x.view(np.int16)).view(torch.bfloat16)
        yield "torch bfloat16", tensor, torch.empty_like(tensor)
        yield "torch bfloat16, new output", tensor, None
    except ImportError:
        pass


def cpp_time(program):
    return float(subprocess.run([program], check=True, capture_output=True, text=True).stdout)


def python_time(model, cache, sequence, x, out):
    times = []
    for _ in range(CALLS):
        with cache.begin({sequence: 1}) as batch:
            start = time.perf_counter()
            model.forward(0, batch, x, out)
            times.append(time.perf_counter() - start)
    return 1e6 * sorted(times)[CALLS // 10]


def main():
    built = pathlib.Path(__file__).parents[2] / "build/release/bench/peers/forward_call"
    program = sys.argv[1] if len(sys.argv) > 1 else built
    model = skim.Model(skim.Checkpoint.synthetic("v41-tiny"))
    cache = skim.KvCache(model, max_tokens=4096, threads=1)
    sequence = cache.add()
    slow = False
    for kind, x, out in arrays():
        cpp, python = (min(times) for times in zip(*(
            (cpp_time(program), python_time(model, cache, sequence, x, out)) for _ in range(ROUNDS))))
        overhead = python - cpp
        print(f"{kind:<28} C++ {cpp:7.2f}   Python {python:7.2f}   overhead {overhead:6.2f} us")
        slow = slow or overhead >= ALLOWED
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
