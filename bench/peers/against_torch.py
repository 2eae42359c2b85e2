"""Layer 20 of the released V4.1 shape (full, ratio 1): skim bench against peer_torch.py, taking turns.

    against_torch.py build/release/skim [--threads N] [--rounds N] [--kernels SET]
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

import peer_torch


def skim_seconds(arguments, context, tokens):
    """Median of what skim bench measures."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "bench.json")
        command = [arguments.skim, "bench", "--model", "synthetic:v41-flash", "--layers", "20", "--context",
                   str(context), "--threads", str(arguments.threads), "--repeats", "5", "--seconds", "3",
                   "--json", str(file)]
        command += ["--mode", "prefill", "--tokens", str(tokens)] if tokens > 1 else ["--mode", "decode"]
        command += ["--kernels", arguments.kernels] if arguments.kernels else []
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        result = json.loads(file.read_text())["results"][0]
        return result["set"], result["median_ns"] / 1e9


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("skim")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kernels", default="")
    arguments = parser.parse_args()
    peer = peer_torch.Peer(arguments.threads)
    for name, (context, tokens) in peer_torch.CASES.items():
        peer.seconds(context, 1)  # warms up
        ours, theirs = [], []
        for _ in range(arguments.rounds):
            theirs.append(statistics.median(peer.seconds(context, tokens) for _ in range(1 if tokens > 1 else 5)))
            kernels, seconds = skim_seconds(arguments, context, tokens)
            ours.append(seconds)
        peer_median, our_median = statistics.median(theirs), statistics.median(ours)
        print(f"{name:<24} PyTorch {peer_median * 1e3:9.1f} ms, {kernels} {our_median * 1e3:9.1f} ms: "
              f"{peer_median / our_median:.2f} times as fast ({min(theirs) / min(ours):.2f} by bests)", flush=True)


if __name__ == "__main__":
    main()
