"""Arrays of other libraries: conversions that round, and their bytes for files."""
from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, List, Tuple

import numpy as np

from skim import _skim
from skim._skim import ErrorCode
from skim.errors import SkimValueError

# As torch, numpy and ml_dtypes call them. numpy has no bfloat16 of its own: everywhere in skim uint16 is its bits.
_SAFETENSORS_DTYPES = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "float8_e5m2": "F8_E5M2", "float8_e4m3fn": "F8_E4M3",
    "float8_e8m0fnu": "F8_E8M0", "int16": "I16", "uint16": "BF16", "bfloat16": "BF16", "float16": "F16",
    "int32": "I32", "uint32": "U32", "float32": "F32", "complex64": "C64", "float64": "F64", "int64": "I64",
    "uint64": "U64",
}


Parts = Tuple[str, List[int], np.ndarray]  # dtype as safetensors spells it, shape, bytes


def dtype_name(array: Any) -> str:
    """'bfloat16', 'float32', ... of an array of torch, numpy or ml_dtypes."""
    return str(array.dtype).rpartition(".")[2]


def is_torch(array: Any) -> bool:
    return hasattr(array, "new_empty")


def _wrong_dtype(array: Any, expected: str) -> SkimValueError:
    return SkimValueError(f"array is {dtype_name(array)}, expected {expected}", ErrorCode.INVALID_ARGUMENT)


def to_bf16(array: Any) -> Any:
    """A float32 array rounded to bfloat16 (nearest even): torch.bfloat16 for torch, bits as uint16 for numpy."""
    if dtype_name(array) != "float32":
        raise _wrong_dtype(array, "float32")
    if is_torch(array):
        import torch

        return array.to(torch.bfloat16)
    bits = np.asarray(array).view(np.uint32)
    rounded = (bits + (0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    quiet_nan = (bits >> 16 | 0x40).astype(np.uint16)
    return np.where((bits & 0x7FFFFFFF) > 0x7F800000, quiet_nan, rounded)


def to_float32(array: Any) -> Any:
    """A bfloat16 array (torch, ml_dtypes, or bits as uint16) as float32 of the same library; exact."""
    if dtype_name(array) not in ("bfloat16", "uint16"):
        raise _wrong_dtype(array, "bfloat16 or its bits as uint16")
    if is_torch(array):
        return array.float()
    return (np.asarray(array).view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def file_parts(name: str, array: Any) -> Parts:
    """Without a copy where the array has no gaps and is on the CPU."""
    dtype = _SAFETENSORS_DTYPES.get(dtype_name(array))
    if dtype is None:
        raise SkimValueError(f"{name} is {dtype_name(array)}, which safetensors has no dtype for",
                             ErrorCode.INVALID_ARGUMENT)
    shape = [int(extent) for extent in array.shape]
    if is_torch(array):
        import torch

        flat = array.detach().cpu().contiguous().reshape(-1)
        return dtype, shape, np.from_dlpack(flat.to(torch.uint8) if dtype == "BOOL" else flat.view(torch.uint8))
    return dtype, shape, np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def write_safetensors(path: str | os.PathLike[str], tensors: Mapping[str, Any],
                      metadata: Mapping[str, str] | None = None) -> None:
    """Writes arrays of torch, numpy or ml_dtypes (uint16: bits of bfloat16) to a file, whole or not at all."""
    _skim.write_tensors(path, {name: file_parts(name, array) for name, array in tensors.items()}, dict(metadata or {}))
