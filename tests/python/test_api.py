"""Errors, stubs, and each function of the package once."""
import ast
import copy
import inspect
import os
import pathlib
import pickle
import resource

import numpy as np
import pytest

import skim
from conftest import ROOT, TOKENS, feed, in_child, run_layers
from skim import _skim

CASE = ROOT / "tests" / "cases" / "v41-tiny-bf16.safetensors"
Code = skim.ErrorCode


def test_codes_are_value_and_runtime_errors(cache, tmp_path):
    sequence = cache.add()
    (tmp_path / "bad.safetensors").write_bytes(b"\xff" * 100)
    (tmp_path / "config.json").write_text("{}")
    calls = {
        Code.INVALID_ARGUMENT: (ValueError, lambda: cache.begin({sequence: 0})),
        Code.BAD_FILE: (ValueError, lambda: skim.verify(tmp_path / "bad.safetensors")),
        Code.BAD_CONFIG: (ValueError, lambda: skim.parse_config("{}")),
        Code.TENSOR_MISMATCH: (ValueError, lambda: skim.Checkpoint.synthetic("v41-tiny").tensor("no such")),
        Code.WRONG_ORDER: (RuntimeError, lambda: cache.begin({sequence: 1}).commit()),
        Code.LIMIT_EXCEEDED: (RuntimeError, lambda: cache.begin({sequence: 5000})),
        Code.IO: (RuntimeError, lambda: skim.Checkpoint.open(tmp_path / "missing")),
        Code.UNAVAILABLE: (RuntimeError, lambda: skim.Model(skim.Checkpoint.synthetic("v41-tiny"), kernels="abacus")),
    }
    assert set(Code) - set(calls) == {Code.OUT_OF_MEMORY, Code.CANCELLED}  # below; only a trace cancels
    for code, (kind, call) in calls.items():
        with pytest.raises(kind) as caught:
            call()
        assert isinstance(caught.value, skim.Error) and caught.value.code == code and "\n" not in str(caught.value)


def test_refused_memory_is_a_memory_error(model):
    cache = skim.KvCache(model, threads=1)
    sequence = cache.add()

    def begin_with_little_memory():
        limit = (64 << 20) + int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        try:
            cache.begin({sequence: 1 << 20})
        except MemoryError as error:
            return error.code == Code.OUT_OF_MEMORY and cache.length(sequence) == 0

    assert in_child(begin_with_little_memory)
    cache.begin({sequence: 1 << 20}).drop()


def test_errors_can_be_pickled(cache):
    with pytest.raises(skim.SkimValueError) as caught:
        cache.length(cache.fork(cache.add(), 3))
    copy = pickle.loads(pickle.dumps(caught.value))
    assert type(copy) is skim.SkimValueError and str(copy) == str(caught.value) and copy.code == Code.INVALID_ARGUMENT


@pytest.mark.filterwarnings("ignore:.*uninitialized instance")
@pytest.mark.parametrize("call", [
    lambda c, m, s: c.begin(3), lambda c, m, s: c.begin({3: 1}), lambda c, m, s: c.begin({s: "1"}),
    lambda c, m, s: c.begin([s]), lambda c, m, s: c.begin({s: 1 << 80}), lambda c, m, s: c.length(3),
    lambda c, m, s: c.fork(s, 1 << 80), lambda c, m, s: skim.KvCache(m, threads="2"), lambda c, m, s: skim.KvCache(c),
    lambda c, m, s: m.forward(0, None, None), lambda c, m, s: m.forward("0", c.begin({s: 1}), None),
    lambda c, m, s: skim.Model(None), lambda c, m, s: skim.Checkpoint.synthetic(3), lambda c, m, s: skim.Batch(),
    lambda c, m, s: skim.SequenceId(), lambda c, m, s: skim.Checkpoint(), lambda c, m, s: skim.VerifyReport(),
    lambda c, m, s: skim.Model.forward(m), lambda c, m, s: skim.Model.__new__(skim.Model).layers,
    lambda c, m, s: skim.KvCache.__new__(skim.KvCache).add(), lambda c, m, s: skim.verify(3)])
def test_arguments_of_other_types_are_type_errors(model, cache, call):
    with pytest.raises(TypeError):
        call(cache, model, cache.add())


def test_a_batch_of_another_model_is_refused(model, cache, x):
    other = skim.Model(skim.Checkpoint.synthetic("v41-tiny"))
    with cache.begin({cache.add(): TOKENS}) as batch:
        with pytest.raises(ValueError, match="another model"):
            other.forward(0, batch, x)


def test_sequences_of_a_batch_share_it(model, cache, x):
    a, b = cache.add(), cache.add()
    alone = feed(model, cache, cache.add(), x[:4])
    with cache.begin([(a, 4), (b, 2)]) as batch:
        assert batch.tokens == 6
        together = run_layers(model, batch, x)
        batch.commit()
    assert all(np.array_equal(one[:4], other) for one, other in zip(together, alone))
    assert (cache.length(a), cache.length(b)) == (4, 2)


def test_drafts_can_be_accepted_in_part(model, cache, x):
    a = cache.add()
    with cache.begin({a: TOKENS}) as batch:
        run_layers(model, batch, x)
        with pytest.raises(skim.SkimRuntimeError, match="rollback is 2"):
            batch.commit(a, 1)
        batch.commit(a, 4)
    assert cache.length(a) == 4


def test_forks_truncation_and_files_go_on_alike(model, cache, x, tmp_path):
    a = cache.add()
    feed(model, cache, a, x)
    assert cache.restorable(a)[0] == range(0, 1) and cache.restorable(a)[-1] == range(4, 7)
    b, c = cache.fork(a), cache.fork(a, 5)
    cache.truncate(b, 5)
    cache.save(c, tmp_path / "c.seq")
    d = cache.load(tmp_path / "c.seq")
    assert len({a, b, c, d}) == 4 and a != b and a == a
    outputs = [feed(model, cache, sequence, x[:2]) for sequence in (b, c, d)]
    assert all(np.array_equal(one, other) for pair in outputs[1:] for one, other in zip(outputs[0], pair))
    cache.remove(a)
    with pytest.raises(ValueError, match="no sequence"):
        cache.length(a)


def test_admission_and_bytes(model):
    cache = skim.KvCache(model, max_tokens=100, max_bytes=1 << 20, threads=1)
    a = cache.add()
    assert cache.admission_problem({a: 10}) is None
    assert "max_tokens is 100" in cache.admission_problem({a: 101})
    held = cache.bytes
    with cache.begin({a: 10}):
        assert cache.bytes > held and cache.workspace_bytes >= 0
    assert cache.bytes == held


def test_configurations_can_be_read_and_changed():
    config = skim.named_config("v41-tiny")
    assert config.model_type == "deepseek_v41" and config.dim == 128
    wider = skim.V41Config(config)
    wider.window_size, wider.weight_type = 16, "bf16"
    assert wider != config and skim.Checkpoint.synthetic(wider).config == wider
    wider.compress_ratios = [1]
    with pytest.raises(ValueError, match="compress_ratios"):
        skim.Checkpoint.synthetic(wider)
    role = skim.layer_role(config, 2)
    assert (role.role, role.kv_source) == ("full", 2)
    cost = skim.cache_cost(skim.named_config("v41-flash"), range(40))
    assert 800 < cost.bytes_per_token < 1000 and cost.bytes_at(10) < cost.bytes_fixed < cost.bytes_at(1 << 20)
    assert skim.named_config("v32").kv_lora_rank == 512


def test_configurations_are_printed_and_pickled():
    """FAULTS 147."""
    config = skim.named_config("v32-tiny")
    config.norm_eps, config.weight_type, config.ue8m0_scales = 1e-5, "bf16", False
    assert repr(config).startswith("V32Config(dim=128, n_layers=2, ")
    assert "norm_eps=1e-05, " in repr(config) and "weight_type='bf16'" in repr(config)
    assert eval(repr(config), {"V32Config": dict})["rope_theta"] == 10000
    for other in (config, skim.named_config("v41-flash")):
        assert pickle.loads(pickle.dumps(other)) == other and copy.deepcopy(other) == other
        assert skim.parse_config(other.to_json()) == other
    config.indexer_types = ["full", "shared"]
    assert pickle.loads(pickle.dumps(config)).indexer_types == ["full", "shared"], "not a valid configuration"
    with pytest.raises(ValueError, match="'none'"):
        config.indexer_types = ["none"]


def test_invalid_configurations_are_refused_wherever_they_are_taken():
    """FAULTS 130."""
    config = skim.named_config("v41-tiny")
    config.compress_ratios = []
    for ask in (lambda: skim.cache_cost(config, [2]), lambda: skim.layer_role(config, 2), config.to_json):
        with pytest.raises(ValueError, match="compress_ratios has 0 entries"):
            ask()


def test_checkpoints_show_their_tensors():
    checkpoint = skim.Checkpoint.open(CASE)
    info = {info.name: info for info in checkpoint.tensors()}["layers.0.attn.wq_a.weight"]
    assert info.dtype == "BF16" and info.name in checkpoint and "other" not in checkpoint
    array = checkpoint.tensor(info.name)
    assert list(array.shape) == info.shape and array.dtype == np.uint16 and array.nbytes == info.bytes
    assert not array.flags.writeable
    assert skim.Checkpoint.synthetic("v41-tiny").tensor("layers.0.attn.attn_sink").dtype == np.float32


def test_verify_replays_a_recording():
    report = skim.verify(CASE, threads=1)
    assert report.passed and report.model == "deepseek_v41" and report.kernels == skim.Model(
        skim.Checkpoint.synthetic("v41-tiny")).kernels
    assert {kind.name: kind.compared for kind in report.kinds}["out"] == 203
    strict = skim.verify(CASE, tolerance=1e-9, threads=1)
    assert not strict.passed and strict.first_failure in str(strict)


def test_kernel_sets_are_listed_best_first():
    sets = skim.kernel_sets()
    assert {"portable", "reference"} <= {entry.name for entry in sets if entry.available}
    assert all(entry.description for entry in sets)


def test_the_version_is_that_of_the_build():
    assert f"project(skim VERSION {skim.__version__} " in (ROOT / "CMakeLists.txt").read_text()


def stub():
    return ast.parse(pathlib.Path(_skim.__file__).with_name("_skim.pyi").read_text())


def test_the_stub_names_everything_there_is():
    nodes = {node.name: node for node in stub().body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    there = {name for name, value in vars(_skim).items() if not name.startswith("_") and callable(value)}
    assert set(nodes) == there
    for name in there:
        if not inspect.isclass(getattr(_skim, name)) or name == "ErrorCode":
            continue
        written = {node.name for node in nodes[name].body if isinstance(node, ast.FunctionDef)}
        public = {member for member in vars(getattr(_skim, name)) if not member.startswith("_")}
        assert public <= written, name


def test_everything_is_described():
    for name in vars(skim):
        value = getattr(skim, name)
        if not name.startswith("_") and inspect.isclass(value):
            assert value.__doc__, name
    for name in ("forward", "layers", "kernels", "weight_bytes", "config"):
        assert inspect.getdoc(getattr(skim.Model, name)), name
    assert "[batch.tokens, dim]" in skim.Model.forward.__doc__
