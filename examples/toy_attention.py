"""The attention of DeepSeek-V4.1's window-only layers in PyTorch (docs/v41.md, steps 1, 2, 7 and 8), as a port might
have it. examples/record_torch.py checks it with skim, examples/torch_layer.py replaces it by skim."""
import torch
from torch import nn

CONFIG = {"dim": 256, "n_layers": 2, "n_heads": 8, "head_dim": 64, "rope_head_dim": 32, "q_lora_rank": 128,
          "o_groups": 2, "o_lora_rank": 64, "window_size": 16, "norm_eps": 1e-6, "rope_theta": 10000.0, "compress_rope_theta": 10000.0,
          "original_seq_len": 0, "compress_ratios": [0, 0], "kv_source_layers": [], "index_source_layers": [],
          "index_n_heads": 0, "index_head_dim": 0, "index_topk": 0, "dtype": "bf16"}
# What this port calls its weights, and what a checkpoint of V4.1 calls them.
WEIGHTS = {"q_down.weight": "wq_a.weight", "q_norm.weight": "q_norm.weight", "q_up.weight": "wq_b.weight",
           "kv.weight": "wkv.weight", "kv_norm.weight": "kv_norm.weight", "sink": "attn_sink",
           "o_down": "wo_a.weight", "o_up.weight": "wo_b.weight"}


class Norm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(1 + 0.1 * torch.randn(width)), eps

    def forward(self, x):
        x = x.float()
        return (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight.float()).bfloat16()


class Rotate(nn.Module):
    """Turns adjacent pairs of the last `width` elements by position * theta^(-2 i / width)."""

    def __init__(self, width, theta):
        super().__init__()
        self.width, self.rates = width, theta ** (-torch.arange(0, width, 2).float() / width)

    def forward(self, x, start, sign=1):  # [batch, tokens, heads, head_dim]
        angles = (start + torch.arange(x.shape[1]))[:, None] * self.rates
        turn = torch.polar(torch.ones_like(angles), sign * angles)[:, None]
        front, tail = x[..., : -self.width], x[..., -self.width :].float().unflatten(-1, (-1, 2))
        return torch.cat([front, torch.view_as_real(torch.view_as_complex(tail) * turn).flatten(-2).bfloat16()], -1)


def fp8_round_trip(x):
    """Groups of 32 to e4m3 with a power-of-two scale, and back."""
    groups = x.float().unflatten(-1, (-1, 32))
    scale = torch.exp2(torch.ceil(torch.log2(groups.abs().amax(-1, keepdim=True).clamp(min=1e-4) / 448)))
    scaled = groups / scale
    step = torch.exp2(torch.floor(torch.log2(scaled.abs().clamp(min=2**-6))) - 3)
    return ((scaled / step).round() * step * scale).flatten(-2).bfloat16()


class Attention(nn.Module):
    """One sequence per row of the batch; keeps what it has seen until `reset`."""

    def __init__(self, config, rope_theta=None):
        super().__init__()
        self.heads, self.groups, self.window = config["n_heads"], config["o_groups"], config["window_size"]
        dim, head, rank = config["dim"], config["head_dim"], config["q_lora_rank"]
        self.q_down, self.q_norm = nn.Linear(dim, rank, bias=False), Norm(rank, config["norm_eps"])
        self.q_up = nn.Linear(rank, self.heads * head, bias=False)
        self.kv, self.kv_norm = nn.Linear(dim, head, bias=False), Norm(head, config["norm_eps"])
        self.sink = nn.Parameter(torch.randn(self.heads))
        per_group, low = self.heads * head // self.groups, config["o_lora_rank"]
        self.o_down = nn.Parameter(torch.randn(self.groups * low, per_group) / per_group**0.5)
        self.o_up = nn.Linear(self.groups * low, dim, bias=False)
        self.rotate_q = Rotate(config["rope_head_dim"], rope_theta or config["rope_theta"])
        self.rotate_kv = Rotate(config["rope_head_dim"], config["rope_theta"])
        self.bfloat16().sink.data = self.sink.data.float()
        self.reset()

    def reset(self):
        self.rows = None  # [batch, tokens, head_dim]: keys and values of every head

    def forward(self, x):  # [batch, tokens, dim], normalized
        start = 0 if self.rows is None else self.rows.shape[1]
        q = self.q_up(self.q_norm(self.q_down(x))).unflatten(-1, (self.heads, -1))
        q = self.rotate_q(q, start).float()
        rows = fp8_round_trip(self.rotate_kv(self.kv_norm(self.kv(x))[:, :, None], start)[:, :, 0])
        self.rows = rows if self.rows is None else torch.cat([self.rows, rows], 1)
        rows = self.rows.float()
        position, query = torch.arange(rows.shape[1]), start + torch.arange(x.shape[1])[:, None]
        visible = (position <= query) & (position > query - self.window)
        logits = torch.einsum("bthd,bsd->bths", q, rows) * q.shape[-1] ** -0.5
        logits = logits.masked_fill(~visible[:, None], float("-inf"))
        top = logits.amax(-1, keepdim=True)
        weights = torch.exp(logits - top)
        total = weights.sum(-1, keepdim=True) + torch.exp(self.sink[:, None] - top)
        o = torch.einsum("bths,bsd->bthd", weights.bfloat16().float(), rows) / total
        o = self.rotate_kv(o.bfloat16(), start, sign=-1)
        o = o.flatten(2).unflatten(-1, (self.groups, -1))
        low = torch.einsum("btgi,gri->btgr", o.float(), self.o_down.unflatten(0, (self.groups, -1)).float())
        return self.o_up(low.flatten(2).bfloat16())
