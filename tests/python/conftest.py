"""A tiny model, and hidden states for it."""
import os
import pathlib
import signal

import numpy as np
import pytest

import skim

ROOT = pathlib.Path(__file__).parents[2]
TOKENS = 6
ONE_LAYER = """{"dim": 32, "n_layers": 1, "n_heads": 2, "head_dim": 32, "rope_head_dim": 16, "q_lora_rank": 32,
"o_groups": 1, "o_lora_rank": 32, "window_size": 8, "norm_eps": 1e-6, "rope_theta": 1e4, "compress_rope_theta": 1e4,
"original_seq_len": 0, "compress_ratios": [0], "kv_source_layers": [], "index_source_layers": [],
"index_n_heads": 0, "index_head_dim": 0, "index_topk": 0, "dtype": "bf16"}"""


@pytest.fixture(scope="session")
def model():
    return skim.Model(skim.Checkpoint.synthetic("v41-tiny"))


@pytest.fixture
def cache(model):
    return skim.KvCache(model, max_tokens=4096, rollback=2, threads=1)


@pytest.fixture(scope="session")
def x(model):
    """Hidden states [TOKENS, dim] as bits of bfloat16."""
    states = np.array(skim.synthetic_input("states", (TOKENS, model.config.dim)))
    states.flags.writeable = False  # the same for all tests
    return states


def run_layers(model, batch, x):
    """All layers with the same input; the outputs."""
    return [model.forward(layer, batch, x) for layer in model.layers]


def feed(model, cache, sequence, x):
    with cache.begin({sequence: len(x)}) as batch:
        outputs = run_layers(model, batch, x)
        batch.commit()
    return outputs


def in_child(work):
    """Whether work() returned true in a child of fork()."""
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # ends a child that hangs
        code = 2
        try:
            code = 0 if work() else 1
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0
