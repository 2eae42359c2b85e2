"""Recordings made by skim.record, replayed by skim.verify."""
import json

import ml_dtypes
import numpy as np
import pytest

import skim
from conftest import ONE_LAYER
from skim.record import Recorder

V32_TINY = {"dim": 128, "n_layers": 2, "n_heads": 4, "q_lora_rank": 64, "kv_lora_rank": 128, "qk_nope_head_dim": 32,
            "qk_rope_head_dim": 16, "v_head_dim": 32, "index_n_heads": 4, "index_head_dim": 64, "index_topk": 8,
            "scale_fmt": "ue8m0", "max_seq_len": 64, "dtype": "fp8"}
ENGINES = {"v41": (json.loads(ONE_LAYER), "layers.{}.attn."), "v32": (V32_TINY, "model.layers.{}.self_attn.")}


def record(kind, calls=((2, 12), (2, 1), (2, 3)), spoil=lambda name, array: array):
    """A recording of what skim itself computes: x and out of two sequences."""
    config, prefix = ENGINES[kind]
    checkpoint = skim.Checkpoint.synthetic(skim.parse_config(json.dumps(config)))
    model = skim.Model(checkpoint, kernels="reference")
    cache = skim.KvCache(model, max_tokens=64, threads=1)
    recorder = Recorder(config)
    for layer in model.layers:
        start = prefix.format(layer)
        names = [info.name for info in checkpoint.tensors() if info.name.startswith(start)]
        recorder.add_weights(layer, {name[len(start) :]: checkpoint.tensor(name) for name in names})
    sequences = [cache.add(), cache.add()]
    for n, (batch_size, tokens) in enumerate(calls):
        with cache.begin([(sequence, tokens) for sequence in sequences]) as batch:
            for layer in model.layers:
                shape = (batch_size, tokens, config["dim"])
                x = skim.synthetic_input(f"{n} {layer}", shape)
                out = model.forward(layer, batch, x.reshape(-1, config["dim"])).reshape(shape)
                recorder.add(layer, "x", spoil("x", x))
                recorder.add(layer, "out", spoil("out", out))
            batch.commit()
    return recorder


@pytest.mark.parametrize("kind", ENGINES)
def test_a_recording_of_skim_itself_passes(tmp_path, kind):
    record(kind).save(tmp_path / "case.safetensors")
    report = skim.verify(tmp_path / "case.safetensors", kernels="reference", threads=1)
    assert report.passed and report and not report.ignored
    assert [(entry.name, entry.worst) for entry in report.kinds] == [("out", 0)]
    assert "passed" in str(report)


@pytest.mark.parametrize("spoil", [
    lambda name, array: array.view(ml_dtypes.bfloat16),
    lambda name, array: skim.to_float32(array),
    lambda name, array: skim.to_float32(array).astype(np.float64) if name == "out" else array,
    lambda name, array: array[:, :, :]])
def test_arrays_of_any_kind_can_be_recorded(tmp_path, spoil):
    record("v41", spoil=spoil).save(tmp_path / "case.safetensors")
    assert skim.verify(tmp_path / "case.safetensors", kernels="reference", threads=1).passed


def test_a_spoilt_output_is_named(tmp_path):
    def spoil(name, array):
        return array + np.uint16(4) if name == "out" and array.shape[1] == 3 else array

    record("v41", spoil=spoil).save(tmp_path / "case.safetensors")
    report = skim.verify(tmp_path / "case.safetensors", kernels="reference", threads=1)
    assert not report.passed and report.first_failure.startswith("call 2 layer 0: out differs")


def test_a_recording_can_go_by_other_weights(tmp_path):
    record("v41").save(tmp_path / "case.safetensors")
    other = skim.Checkpoint.synthetic(skim.parse_config(ONE_LAYER), seed=5)
    assert not skim.verify(tmp_path / "case.safetensors", weights=other, threads=1).passed


def test_what_was_recorded_is_a_copy(tmp_path):
    recorder = Recorder(json.loads(ONE_LAYER))
    x = np.zeros((1, 2, 32), np.uint16)
    recorder.add(0, "x", x)
    x[:] = 1
    recorder.save(tmp_path / "case.safetensors")
    assert (tmp_path / "case.safetensors").read_bytes().endswith(bytes(2 * 2 * 32))


def test_calls_follow_one_another_until_a_reset():
    recorder = Recorder(V32_TINY)
    for tokens, reset in ((4, False), (1, False), (5, True), (2, False)):
        if reset:
            recorder.reset()
        for layer in (0, 1):
            recorder.add(layer, "x", np.zeros((tokens, 128), np.uint16))  # of one sequence
    calls = [(call["start_pos"], call["seqlen"], call["reset"]) for call in recorder._calls]
    assert calls == [(0, 4, True), (4, 1, False), (0, 5, True), (5, 2, False)]


def test_mistakes_in_recording_are_named(tmp_path):
    recorder = Recorder(V32_TINY)
    with pytest.raises(ValueError, match="nothing to save"):
        recorder.save(tmp_path / "case.safetensors")
    with pytest.raises(ValueError, match="out of layer 0 came before its x"):
        recorder.add(0, "out", np.zeros((1, 128), np.uint16))
    with pytest.raises(ValueError, match="x of layer 0 is float32 and no bfloat16 value"):
        recorder.add(0, "x", np.full((1, 128), 1.001, np.float32))
    recorder.add(0, "x", np.zeros((2, 3, 128), np.uint16))
    with pytest.raises(ValueError, match="x of layer 1 has 1 sequences of 3 tokens, .* 2 of 3"):
        recorder.add(1, "x", np.zeros((3, 128), np.uint16))
    with pytest.raises(ValueError, match="recorder: config: .*dim"):
        Recorder({})


def test_weights_of_a_draft_layer_are_named_as_in_the_checkpoint(tmp_path):
    config = {**json.loads(ONE_LAYER), "n_mtp_layers": 1}
    config["compress_ratios"] = [*config["compress_ratios"], 0]
    recorder = Recorder(config)
    recorder.add(0, "x", np.zeros((2, config["dim"]), np.uint16))
    recorder.add_weights(1, {"attn_sink": np.zeros(config["n_heads"], np.float32)})
    recorder.save(tmp_path / "case.safetensors")
    assert "mtp.0.attn.attn_sink" in skim.Checkpoint.open(tmp_path / "case.safetensors")


def test_weights_of_a_layer_that_does_not_exist_are_refused():
    with pytest.raises(skim.SkimValueError, match="layer 1 does not exist"):
        Recorder(json.loads(ONE_LAYER)).add_weights(1, {"attn_sink": np.zeros(4, np.float32)})
