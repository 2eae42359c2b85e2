"""A small decoder in PyTorch with random weights decodes twice: with its own attention, and with skim's in its place.

Logits must be the same but for rounding; the time per token of both is shown. Attention: examples/toy_attention.py.
"""
import argparse
import json
import pathlib
import sys
import tempfile
import time

import torch
from toy_attention import CONFIG, WEIGHTS, Attention
from torch import nn

import skim

VOCABULARY = 1000


class SkimAttention(nn.Module):
    """Stands where Attention stood: the batch of tokens that all layers work on is in `engine`."""

    def __init__(self, engine, layer):
        super().__init__()
        self.engine, self.layer = engine, layer

    def forward(self, x):  # [batch, tokens, dim]
        out = torch.empty_like(x)
        self.engine.model.forward(self.layer, self.engine.batch, x.flatten(0, 1), out.flatten(0, 1))
        return out


class Engine:
    """What all layers share: packed weights, the cache, and the batch in progress."""

    def __init__(self, layers):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder)
            (path / "config.json").write_text(json.dumps(CONFIG))
            skim.write_safetensors(path / "model.safetensors", {
                f"layers.{i}.attn.{target}": dict(layer.named_parameters())[name]
                for i, layer in enumerate(layers) for name, target in WEIGHTS.items()})
            self.model = skim.Model(skim.Checkpoint.open(path))
        self.cache = skim.KvCache(self.model, max_tokens=4096, threads=1)  # for layers this small
        self.sequences = [self.cache.add() for _ in range(2)]
        self.batch = None

    def run(self, decoder, tokens):
        with self.cache.begin([(sequence, tokens.shape[1]) for sequence in self.sequences]) as self.batch:
            logits = decoder(tokens)
            self.batch.commit()
        return logits


class Decoder(nn.Module):
    """Pre-norm decoder; the attention modules may be exchanged."""

    def __init__(self):
        super().__init__()
        dim = CONFIG["dim"]
        self.embed = nn.Embedding(VOCABULARY, dim)
        self.attention = nn.ModuleList(Attention(CONFIG) for _ in range(CONFIG["n_layers"]))
        self.mlp = nn.ModuleList(nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.GELU(),
                                               nn.Linear(4 * dim, dim)) for _ in self.attention)
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in self.attention)
        self.head = nn.Linear(dim, VOCABULARY)
        for part in (self.embed, self.mlp, self.norms, self.head):
            part.bfloat16()

    def forward(self, tokens):  # [batch, tokens] -> logits [batch, tokens, vocabulary]
        x = self.embed(tokens)
        for norm, attention, mlp in zip(self.norms, self.attention, self.mlp):
            x = x + attention(norm(x))
            x = x + mlp(x)
        return self.head(x).float()


def decode(run, prompt, choose, steps):
    """Logits after the prompt and after each of `steps` tokens, and the seconds that a token took."""
    logits = [run(prompt)[:, -1:]]
    started = time.perf_counter()
    for step in range(steps):
        logits.append(run(choose(step, logits[-1])))
    return torch.cat(logits, 1), (time.perf_counter() - started) / steps


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=64, help="tokens to decode after a prompt of 48")
    arguments = parser.parse_args()
    torch.manual_seed(1)
    decoder = Decoder()
    prompt = torch.randint(VOCABULARY, (2, 48))
    expected, torch_seconds = decode(decoder, prompt, lambda _, logits: logits.argmax(-1), arguments.steps)
    chosen = expected.argmax(-1)

    engine = Engine(decoder.attention)
    decoder.attention = nn.ModuleList(SkimAttention(engine, i) for i in range(CONFIG["n_layers"]))
    # The same tokens again, so that one choice between equals does not lead the texts apart.
    got, skim_seconds = decode(lambda tokens: engine.run(decoder, tokens), prompt,
                               lambda step, _: chosen[:, step : step + 1], arguments.steps)

    error = float((got - expected).norm() / expected.norm())
    same = int((got.argmax(-1) == chosen).sum())
    print(f"logits differ by {error:.1e} (allowed 1.0e-02); {same} of {chosen.numel()} times the same token wins")
    print(f"per decoded token of 2 sequences: {1e3 * torch_seconds:.2f} ms with PyTorch's attention, "
          f"{1e3 * skim_seconds:.2f} ms with skim's")
    return 0 if error < 0.01 else 1


if __name__ == "__main__":
    sys.exit(main())
