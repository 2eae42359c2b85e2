"""The recorder's hooks, and the examples that need PyTorch."""
import os
import subprocess
import sys

import pytest

import skim
from conftest import ROOT
from skim.record import Recorder

torch = pytest.importorskip("torch", reason="torch is not installed")
sys.path.insert(0, str(ROOT / "examples"))

import toy_attention  # noqa: E402


def run(name, *arguments):
    """Exit status and output of an example."""
    command = [sys.executable, str(ROOT / "examples" / name), *arguments]
    process = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_WAIT_POLICY": "passive"})
    assert not process.stderr, process.stderr
    return process.returncode, process.stdout


def test_a_correct_port_passes():
    status, output = run("record_torch.py")
    assert status == 0 and output.endswith("passed\n")


def test_the_planted_mistake_is_named():
    status, output = run("record_torch.py", "--wrong")
    assert status == 1 and "FAILED: call 0 layer 0: q_rope differs" in output
    assert "FAILED" not in next(line for line in output.splitlines() if line.split()[0] == "qr")


def test_a_decoder_computes_the_same_with_skim():
    status, output = run("torch_layer.py", "--steps", "8")
    assert status == 0 and "ms with skim's" in output


def test_hooks_record_keyword_arguments_and_let_go(tmp_path):
    class Wrapper(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = toy_attention.Attention(toy_attention.CONFIG)

        def forward(self, hidden_states):
            return self.inner(hidden_states), None

    wrapper = Wrapper()
    recorder = Recorder(toy_attention.CONFIG)
    weights = {"inner." + name: target for name, target in toy_attention.WEIGHTS.items()}
    tensors = {"inner.rotate_q": ("q_rope", lambda q: q.flatten(2))}
    x = torch.randn(1, 4, 256).bfloat16()
    if int(torch.__version__.partition(".")[0]) >= 2:  # before, hooks do not see keyword arguments
        recorder.attach(wrapper, 0, tensors, weights, x="hidden_states")
        wrapper(hidden_states=x)
    else:
        recorder.attach(wrapper, 0, tensors, weights)
        wrapper(x)
    recorder.detach()
    wrapper(torch.zeros(1, 1, 256).bfloat16())
    recorder.save(tmp_path / "case.safetensors")
    report = skim.verify(tmp_path / "case.safetensors", kernels="reference", threads=1)
    assert report.passed and [kind.name for kind in report.kinds] == ["q_rope", "out"]


def test_a_weight_that_does_not_exist_is_named():
    with pytest.raises(ValueError, match="layer 0 has no parameter or buffer no_such.weight"):
        Recorder(toy_attention.CONFIG).attach(toy_attention.Attention(toy_attention.CONFIG), 0, {},
                                              {"no_such.weight": "wq_a.weight"})
