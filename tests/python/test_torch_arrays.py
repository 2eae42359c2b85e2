"""Tensors of torch as x and out."""
import numpy as np
import pytest

import skim
from conftest import TOKENS

torch = pytest.importorskip("torch", reason="torch is not installed")


@pytest.fixture
def batch(cache):
    with cache.begin({cache.add(): TOKENS}) as batch:
        yield batch


@pytest.fixture
def tensor(x):
    return torch.from_numpy(x.view(np.int16).copy()).view(torch.bfloat16)


def bits(tensor):
    return tensor.view(torch.int16).numpy().view(np.uint16)


def test_torch_comes_back_as_torch(model, cache, batch, x, tensor):
    out = model.forward(0, batch, tensor)
    assert out.dtype == torch.bfloat16 and out.shape == tensor.shape
    with cache.begin({cache.add(): TOKENS}) as other:
        assert np.array_equal(bits(out), model.forward(0, other, x))


def test_out_is_written_and_returned(model, batch, tensor):
    out = torch.zeros_like(tensor)
    assert model.forward(0, batch, tensor, out) is out
    assert out.any()


def test_parameters_can_be_read(model, batch, tensor):
    assert not model.forward(0, batch, torch.nn.Parameter(tensor)).requires_grad


@pytest.mark.parametrize("spoil", [
    lambda t: t.float(), lambda t: t.half(), lambda t: t[:3], lambda t: t.t().contiguous().t(), lambda t: t.reshape(-1),
    lambda t: t.repeat_interleave(2, 1)[:, ::2], lambda t: t[:1].expand(TOKENS, -1), lambda t: t.to("meta"),
    lambda t: t.to_sparse(), lambda t: t.view(torch.int16)])
def test_bad_tensors_are_refused(model, batch, tensor, spoil):
    with pytest.raises(skim.SkimValueError, match="^x "):
        model.forward(0, batch, spoil(tensor))
    with pytest.raises(skim.SkimValueError, match="^out "):
        model.forward(0, batch, tensor, spoil(tensor))
    assert model.forward(0, batch, tensor).shape == tensor.shape


def test_a_tensor_whose_memory_was_freed_is_refused(model, batch, tensor):
    freed = tensor.clone()
    storage = freed.untyped_storage() if hasattr(freed, "untyped_storage") else freed.storage()
    storage.resize_(0)
    with pytest.raises(skim.SkimValueError, match="x (has no data|is a .* whose memory cannot)"):
        model.forward(0, batch, freed)
    with pytest.raises(skim.SkimValueError, match="out (has no data|is a .* whose memory cannot)"):
        model.forward(0, batch, tensor, freed)


def test_conversions_keep_the_library(tensor):
    wide = skim.to_float32(tensor)
    assert wide.dtype == torch.float32
    assert torch.equal(skim.to_bf16(wide), tensor)
