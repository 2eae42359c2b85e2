"""One layer of DeepSeek-V4.1 attention (released shape, role full, ratio 1) the way one writes it in plain PyTorch:
bf16 weights and caches, nothing packed, random values. It does the arithmetic of docs/v41.md except for quantizing:
projections, window, compression, index scores, top-k, attention to gathered rows with a sink, output projections.

    peer_torch.py [--threads N]    times a prefill of 1,024 tokens, and decoding behind 1,024 and 16,384 tokens
"""

import argparse
import statistics
import time

import torch
from torch.nn.functional import linear

DIM, HEADS, WIDTH, ROTATED = 5120, 64, 512, 64
Q_RANK, GROUPS, O_RANK, WINDOW = 1280, 8, 1024, 128
INDEX_HEADS, INDEX_WIDTH, TOPK = 32, 128, 512
EPS = 1e-6
QUERIES = 64  # attended and scored at one time, so that intermediate tensors stay small


def weight(*shape):
    return torch.randn(*shape, dtype=torch.float32).mul_(shape[-1] ** -0.5).to(torch.bfloat16)


def rms_norm(x):
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + EPS)).to(torch.bfloat16)


def rotate(x, first, inverse=False):
    """Rotates adjacent pairs of the last ROTATED elements; x: [tokens, ..., width], positions from `first` on."""
    frequencies = 1.6e5 ** (-torch.arange(0, ROTATED, 2, dtype=torch.float32) / ROTATED)
    angles = torch.arange(first, first + x.shape[0], dtype=torch.float32)[:, None] * frequencies
    turn = torch.polar(torch.ones_like(angles), -angles if inverse else angles)
    turn = turn.view(x.shape[0], *([1] * (x.dim() - 2)), ROTATED // 2)
    tail = torch.view_as_complex(x[..., -ROTATED:].float().unflatten(-1, (-1, 2)))
    return torch.cat([x[..., :-ROTATED], torch.view_as_real(tail * turn).flatten(-2).to(torch.bfloat16)], dim=-1)


class Layer:
    def __init__(self, capacity):
        self.wq_a, self.wq_b = weight(Q_RANK, DIM), weight(HEADS * WIDTH, Q_RANK)
        self.wkv, self.wkv_compressed = weight(WIDTH, DIM), weight(WIDTH, DIM)
        self.wo_a, self.wo_b = weight(GROUPS, O_RANK, HEADS // GROUPS * WIDTH), weight(DIM, GROUPS * O_RANK)
        self.index_wk, self.index_wq = weight(INDEX_WIDTH, WIDTH), weight(INDEX_HEADS * INDEX_WIDTH, Q_RANK)
        self.index_weights = weight(INDEX_HEADS, DIM)
        self.sink = torch.randn(HEADS)
        self.window = torch.zeros(capacity, WIDTH, dtype=torch.bfloat16)  # all rows, of which the last are used
        self.rows = torch.zeros(capacity, WIDTH, dtype=torch.bfloat16)
        self.keys = torch.zeros(capacity, INDEX_WIDTH, dtype=torch.bfloat16)

    def plant(self, tokens):
        for rows in (self.window, self.rows, self.keys):
            rows[:tokens] = torch.randn(tokens, rows.shape[1])

    def forward(self, x, first):
        """x: [tokens, DIM] of positions from `first` on."""
        tokens = x.shape[0]
        low = rms_norm(linear(x, self.wq_a))
        q = rotate(linear(low, self.wq_b).view(tokens, HEADS, WIDTH), first)
        self.window[first:first + tokens] = rotate(rms_norm(linear(x, self.wkv)), first)
        latent = rms_norm(linear(x, self.wkv_compressed))
        self.keys[first:first + tokens] = rotate(rms_norm(linear(latent, self.index_wk)), first)
        self.rows[first:first + tokens] = rotate(latent, first)
        index_q = rotate(linear(low, self.index_wq).view(tokens, INDEX_HEADS, INDEX_WIDTH), first)
        weights = linear(x, self.index_weights) * (INDEX_WIDTH * INDEX_HEADS) ** -0.5
        o = torch.empty_like(q)
        for begin in range(0, tokens, QUERIES):
            part = slice(begin, min(begin + QUERIES, tokens))
            positions = torch.arange(first + part.start, first + part.stop)
            o[part] = self.attend(q[part], positions, *self.select(index_q[part], weights[part], positions))
        o = rotate(o, first, inverse=True).view(tokens, GROUPS, -1)
        o = torch.bmm(o.transpose(0, 1), self.wo_a.transpose(1, 2)).transpose(0, 1).reshape(tokens, -1)
        return linear(o, self.wo_b)

    def select(self, index_q, weights, positions):
        """The best positions of each query, and whether it may see them."""
        seen = int(positions[-1]) + 1
        dots = (index_q.flatten(0, 1) @ self.keys[:seen].T).view(-1, INDEX_HEADS, seen)
        scores = torch.bmm(weights[:, None, :], dots.relu_())[:, 0]
        scores.masked_fill_(torch.arange(seen) > positions[:, None], -torch.inf)
        best, chosen = scores.topk(min(TOPK, seen), dim=-1)
        return chosen, best > -torch.inf

    def attend(self, q, positions, chosen, allowed):
        recent = positions[:, None] - torch.arange(WINDOW - 1, -1, -1)
        rows = torch.cat([self.window[recent.clamp(min=0)], self.rows[chosen]], dim=1)
        logits = torch.bmm(q, rows.transpose(1, 2)).float() * WIDTH ** -0.5
        logits.masked_fill_(~torch.cat([recent >= 0, allowed], dim=1)[:, None, :], -torch.inf)
        logits = torch.cat([logits, self.sink.expand(len(q), -1)[:, :, None]], dim=-1)
        probabilities = logits.softmax(-1)[..., :-1].to(torch.bfloat16)
        return torch.bmm(probabilities, rows)


class Peer:
    """The layer with what it is timed on."""

    def __init__(self, threads):
        torch.set_num_threads(threads)
        torch.manual_seed(1)
        self.layer = Layer(16384 + 1)
        self.x = torch.randn(1024, DIM).to(torch.bfloat16)

    @torch.no_grad()
    def seconds(self, context, tokens):
        """Of `tokens` tokens behind `context` others."""
        self.layer.plant(context)
        start = time.perf_counter()
        self.layer.forward(self.x[:tokens], context)
        return time.perf_counter() - start


CASES = {"prefill of 1024 tokens": (0, 1024), "decode behind 1024": (1024, 1), "decode behind 16384": (16384, 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    peer = Peer(parser.parse_args().threads)
    for name, (context, tokens) in CASES.items():
        peer.seconds(context, 1)
        times = [peer.seconds(context, tokens) for _ in range(2 if tokens > 1 else 9)]
        print(f"{name:<24} best {min(times) * 1e3:9.1f} ms, median {statistics.median(times) * 1e3:9.1f} ms")


if __name__ == "__main__":
    main()
