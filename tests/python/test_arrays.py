"""What may be passed as x and out, what comes back, and what is refused."""
import array
import ctypes

import ml_dtypes
import numpy as np
import pytest

import skim
from conftest import TOKENS


class OnlyDlpack:
    """An array of a library that nobody has heard of."""

    def __init__(self, exporter, device=None):
        self.exporter, self.device = exporter, device

    def __dlpack__(self, **keywords):
        return self.exporter.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.exporter.__dlpack_device__()


@pytest.fixture
def batch(cache):
    with cache.begin({cache.add(): TOKENS}) as batch:
        yield batch


@pytest.fixture
def expected(model, cache, x):
    with cache.begin({cache.add(): TOKENS}) as batch:
        return model.forward(0, batch, x)


def test_uint16_comes_back_as_uint16(model, batch, x):
    out = model.forward(0, batch, x)
    assert type(out) is np.ndarray and out.dtype == np.uint16 and out.shape == x.shape


def test_ml_dtypes_comes_back_as_ml_dtypes(model, batch, x, expected):
    out = model.forward(0, batch, x.view(ml_dtypes.bfloat16))
    assert out.dtype == ml_dtypes.bfloat16
    assert np.array_equal(out.view(np.uint16), expected)


def test_out_is_written_and_returned(model, batch, x, expected):
    out = np.zeros_like(x).view(ml_dtypes.bfloat16)
    assert model.forward(0, batch, x, out) is out
    assert np.array_equal(out.view(np.uint16), expected)


def test_out_may_be_x(model, batch, x, expected):
    both = x.copy()
    assert model.forward(0, batch, both, both) is both
    assert np.array_equal(both, expected)


def test_any_array_with_dlpack_will_do(model, batch, x, expected):
    out = np.zeros_like(x)
    model.forward(0, batch, OnlyDlpack(x.copy()), OnlyDlpack(out))
    assert np.array_equal(out, expected)


def test_any_array_with_the_buffer_protocol_will_do(model, batch, x, expected):
    out = bytearray(x.nbytes)
    view = memoryview(out).cast("H", x.shape)
    model.forward(0, batch, memoryview(x.tobytes()).cast("H", x.shape), view)
    assert bytes(out) == expected.tobytes()


def test_rows_may_lie_apart(model, batch, x, expected):
    wide = np.zeros((TOKENS, 2 * x.shape[1]), np.uint16)
    wide[:, : x.shape[1]] = x
    out = np.zeros((TOKENS, x.shape[1] + 8), np.uint16)
    model.forward(0, batch, wide[:, : x.shape[1]], out[:, 8:])
    assert np.array_equal(out[:, 8:], expected) and not out[:, :8].any()


def at_an_odd_address(x):
    return np.frombuffer(bytearray(b"\0" + x.tobytes()), np.uint8)[1:].view(np.uint16).reshape(x.shape)


BAD = {
    "few rows": (lambda x: x[:3], r"shape \[3, 128\], expected \[6, 128\]"),
    "no rows": (lambda x: x[:0], "shape|data"),
    "few columns": (lambda x: x[:, :64], "shape"),
    "one axis": (lambda x: x.reshape(-1), "1 axes, expected 2"),
    "three axes": (lambda x: x[None], "3 axes"),
    "no axes": (lambda x: np.array(3, np.uint16), "0 axes"),
    "float32": (lambda x: skim.to_float32(x), "float32, expected bfloat16 .*skim.to_bf16"),
    "float16": (lambda x: x.view(np.float16), "float16, expected"),
    "int16": (lambda x: x.view(np.int16), "int16, expected"),
    "uint32": (lambda x: x.astype(np.uint32), "uint32, expected"),
    "objects": (lambda x: x.astype(object), "dtype object"),
    "records": (lambda x: x.view([("a", np.uint16)]), "expected bfloat16"),
    "other byte order": (lambda x: x.astype(x.dtype.newbyteorder(">")), "dtype >u2"),
    "columns apart": (lambda x: np.repeat(x, 2, axis=1)[:, ::2], "strides"),
    "transposed": (lambda x: np.asfortranarray(x), "strides"),
    "backwards": (lambda x: x.copy()[::-1], "strides"),
    "one row for all": (lambda x: np.lib.stride_tricks.as_strided(x.copy(), x.shape, (0, 2)), "strides"),
    "odd address": (at_an_odd_address, "odd address"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_x_is_refused_and_the_batch_goes_on(model, batch, x, expected, kind):
    spoil, message = BAD[kind]
    with pytest.raises(skim.SkimValueError, match="x (has|is) .*" + message) as caught:
        model.forward(0, batch, spoil(x))
    assert caught.value.code == skim.ErrorCode.INVALID_ARGUMENT
    assert np.array_equal(model.forward(0, batch, x), expected)


@pytest.mark.parametrize("kind", BAD)
def test_bad_out_is_refused_and_nothing_is_written(model, batch, x, expected, kind):
    spoil, message = BAD[kind]
    out = spoil(x.copy())
    before = out.tobytes()
    with pytest.raises(skim.SkimValueError, match="out (has|is) .*" + message):
        model.forward(0, batch, x, out)
    assert out.tobytes() == before
    assert np.array_equal(model.forward(0, batch, x), expected)


@pytest.mark.parametrize("array_type", ["numpy", "memoryview", "dlpack"])
def test_read_only_out_is_refused(model, batch, x, array_type):
    frozen = x.copy()
    frozen.flags.writeable = False
    out = {"numpy": frozen, "memoryview": memoryview(x.tobytes()).cast("H", x.shape), "dlpack": OnlyDlpack(frozen)}
    with pytest.raises(skim.SkimValueError, match="out is (read-only|a .* whose memory cannot)"):
        model.forward(0, batch, x, out[array_type])  # numpy before 2.1 does not export it at all


def test_out_that_overlaps_x_is_refused(model, batch, x):
    rows = np.zeros((TOKENS + 1, x.shape[1]), np.uint16)
    with pytest.raises(skim.SkimValueError, match="overlap"):
        model.forward(0, batch, rows[:-1], rows[1:])


@pytest.mark.parametrize("thing", [None, 3, "text", [[1, 2]], object(), {}, np.ndarray, array.array])
def test_what_is_no_array_is_a_type_error(model, batch, x, thing):
    with pytest.raises((TypeError, ValueError)):
        model.forward(0, batch, thing)
    if thing is not None:
        with pytest.raises((TypeError, ValueError)):
            model.forward(0, batch, x, thing)


class DlTensor(ctypes.Structure):
    """The begin of a DLManagedTensor."""

    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


def on_another_device(array):
    """Tells DLPack that the bytes are on a GPU."""
    capsule = array.__dlpack__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    DlTensor.from_address(pointer(capsule, b"dltensor")).device_type = 2
    return capsule


def test_an_array_on_another_device_is_refused(model, batch, x):
    class OnGpu:
        def __dlpack__(self, **keywords):
            return on_another_device(x.copy())

        def __dlpack_device__(self):
            return (2, 0)

    with pytest.raises(skim.SkimValueError, match="x is in memory of device type 2"):
        model.forward(0, batch, OnGpu())
    with pytest.raises(skim.SkimValueError, match="out is in memory of device type 2"):
        model.forward(0, batch, x, OnGpu())


def test_a_released_buffer_is_refused(model, batch, x):
    view = memoryview(x.tobytes()).cast("H", x.shape)
    view.release()
    with pytest.raises(ValueError):
        model.forward(0, batch, view)


def test_an_exporter_that_raises_is_refused(model, batch):
    class Broken:
        def __dlpack__(self, **keywords):
            raise KeyError("broken")

        def __dlpack_device__(self):
            return (1, 0)

    with pytest.raises(ValueError, match="x is a .*Broken of dtype unknown"):
        model.forward(0, batch, Broken())


def test_a_capsule_that_was_used_is_refused(model, batch, x):
    capsule = x.copy().__dlpack__()
    np.from_dlpack(type("Once", (), {"__dlpack__": lambda self, **k: capsule,
                                     "__dlpack_device__": lambda self: (1, 0)})())
    with pytest.raises((TypeError, ValueError)):
        model.forward(0, batch, capsule)


def test_to_bf16_rounds_to_nearest_even_like_ml_dtypes():
    bits = np.arange(0, 1 << 32, 65521, dtype=np.uint64).astype(np.uint32)
    ties = np.arange(0, 1 << 32, 1 << 16, dtype=np.uint64).astype(np.uint32) + 0x8000
    floats = np.concatenate([bits, ties]).view(np.float32)
    numbers = floats[~np.isnan(floats)]
    assert np.array_equal(skim.to_bf16(numbers), numbers.astype(ml_dtypes.bfloat16).view(np.uint16))
    assert np.isnan(skim.to_float32(skim.to_bf16(floats[np.isnan(floats)]))).all()


def test_to_float32_is_exact():
    bits = np.arange(1 << 16, dtype=np.uint16)
    wide = skim.to_float32(bits)
    assert wide.dtype == np.float32 and np.array_equal(wide.view(np.uint32) >> 16, bits)
    assert np.array_equal(skim.to_float32(bits.view(ml_dtypes.bfloat16)).view(np.uint32), wide.view(np.uint32))


def test_conversions_refuse_other_dtypes():
    with pytest.raises(ValueError, match="float64, expected float32"):
        skim.to_bf16(np.zeros(3))
    with pytest.raises(ValueError, match="float32, expected bfloat16"):
        skim.to_float32(np.zeros(3, np.float32))
