"""Recording what an implementation computes, as a case file that skim.verify and `skim verify` replay.

    recorder = Recorder(config)
    recorder.attach(attention, layer=0, weights={"q_down.weight": "wq_a.weight", ...}, tensors={"q_norm": "qr", ...})
    ...                           # run the model: whole prompts, then token by token, as it likes
    recorder.save("case.safetensors")

Without PyTorch, `add` and `add_weights` take the arrays themselves. What is recorded: docs/cases.md.
"""
from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from skim._skim import ErrorCode, layer_prefix, parse_config, write_tensors
from skim.arrays import Parts, dtype_name, file_parts, is_torch, to_bf16, to_float32
from skim.errors import SkimValueError

# Libraries without 8-bit floats hold their bits as uint8: what they stand for follows from the name.
_BITS_OF_WEIGHTS = {"weight": "F8_E4M3", "scale": "F8_E8M0"}

Convert = Callable[[Any], Any]


def _refuse(message: str) -> SkimValueError:
    return SkimValueError(message, ErrorCode.INVALID_ARGUMENT)


def _first_tensor(value: Any) -> Any:
    """Modules return tensors or tuples that begin with one."""
    return value[0] if isinstance(value, (tuple, list)) else value


def _float32(array: Any) -> Any:
    return array.float() if is_torch(array) else array.astype(np.float32)


def _as_input(array: Any, name: str) -> Any:
    """Inputs must be what skim is given: bfloat16, without rounding that the engine did not do."""
    if dtype_name(array) in ("bfloat16", "uint16"):
        return array
    wide = _float32(array)
    rounded = to_bf16(wide)
    if not bool((to_float32(rounded) == wide).all()):
        raise _refuse(f"recorder: {name} is {dtype_name(array)} and no bfloat16 value: run the model in bfloat16, or "
                      "round its inputs")
    return rounded


def _parts(name: str, array: Any) -> Parts:
    """A copy: engines reuse their memory."""
    if dtype_name(array) in ("float16", "float64"):
        array = _float32(array)
    dtype, shape, content = file_parts(name, array)
    return dtype, shape, content.copy()


class Recorder:
    """Collects weights, inputs and whatever was computed in between, layer by layer and call by call.

    config: a dictionary in the spelling of DeepSeek's inference configuration (docs/cases.md). A call of the model is
    over when a layer gets a second input; its tokens follow those of the call before, until `reset`.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = dict(config)
        self._parsed = parse_config(json.dumps(self.config), "recorder: config")
        self.model_type = self._parsed.model_type
        self._tensors: dict[str, Parts] = {}
        self._calls: list[dict[str, Any]] = []
        self._inputs: set[int] = set()  # layers of the current call
        self._fresh = True
        self._hooks: list[Any] = []

    def reset(self) -> None:
        """The engine has emptied its caches: the next call starts at position 0."""
        self._fresh = True

    def add_weights(self, layer: int, weights: Mapping[str, Any]) -> None:
        """Weights of a layer, by the names of docs/v41.md or docs/v32.md without their prefix ("wq_a.weight").

        Arrays of torch, ml_dtypes or numpy; uint16 is bits of bfloat16, uint8 bits of an 8-bit float.
        """
        for name, array in weights.items():
            dtype, shape, content = _parts(name, array)
            if dtype == "U8":
                dtype = _BITS_OF_WEIGHTS.get(name.rpartition(".")[2], dtype)
            self._tensors["weights/" + layer_prefix(self._parsed, layer) + name] = dtype, shape, content

    def add(self, layer: int, name: str, array: Any) -> None:
        """What a layer was given (`x`, first) or computed: [batch, rows, ...], or [rows, ...] of one sequence."""
        rows = array if array.ndim > 2 else array.reshape(1, *array.shape)
        if name == "x":
            rows = _as_input(rows, f"x of layer {layer}")
            self._begin(layer, int(rows.shape[0]), int(rows.shape[1]))
        elif layer not in self._inputs:
            raise _refuse(f"recorder: {name} of layer {layer} came before its x")
        full_name = f"call.{len(self._calls) - 1}.layer.{layer}.{name}"
        self._tensors[full_name] = _parts(full_name, rows)

    def attach(self, module: Any, layer: int, tensors: Mapping[str, str | tuple[str, Convert]],
               weights: Mapping[str, str], x: int | str = 0) -> None:
        """Records an attention module (torch.nn.Module) by hooks, until `detach`.

        Its input (argument `x`, by position or name) and output are recorded as `x` and `out`. tensors: name of a
        submodule -> name in docs/cases.md of what it returns, or (name, function) if it must be brought into shape.
        weights: name of a parameter or buffer -> name of the checkpoint's tensor, without its prefix.
        """
        known = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        missing = [name for name in weights if name not in known]
        if missing:
            raise _refuse(f"recorder: the module of layer {layer} has no parameter or buffer {', '.join(missing)}")
        self.add_weights(layer, {target: known[name] for name, target in weights.items()})
        for name, target in tensors.items():
            what, convert = target if isinstance(target, tuple) else (target, lambda tensor: tensor)
            self._hook_output(module.get_submodule(name), layer, what, convert)
        self._hook_input(module, layer, x)
        self._hook_output(module, layer, "out", lambda tensor: tensor)

    def detach(self) -> None:
        """Removes all hooks."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the case file."""
        if not self._calls:
            raise _refuse("recorder: nothing to save, no layer got an input")
        metadata = {"format": "attention-case/1", "model": self.model_type, "config": json.dumps(self.config),
                    "calls": json.dumps(self._calls)}
        write_tensors(path, self._tensors, metadata)

    def _begin(self, layer: int, batch: int, tokens: int) -> None:
        """Notes an input: of the current call, or of a new one."""
        last = self._calls[-1] if self._calls else None
        if last is None or self._fresh or layer in self._inputs:
            start = 0 if last is None or self._fresh else last["start_pos"] + last["seqlen"]
            self._calls.append({"start_pos": start, "seqlen": tokens, "batch": batch, "reset": self._fresh})
            self._fresh = False
            self._inputs.clear()
        elif (last["batch"], last["seqlen"]) != (batch, tokens):
            raise _refuse(f"recorder: x of layer {layer} has {batch} sequences of {tokens} tokens, but the layers "
                          f"before it got {last['batch']} of {last['seqlen']}")
        self._inputs.add(layer)

    def _hook_input(self, module: Any, layer: int, x: int | str) -> None:
        def record(_: Any, args: tuple[Any, ...], keywords: Mapping[str, Any] | None = None) -> None:
            self.add(layer, "x", (keywords or {})[x] if isinstance(x, str) else args[x])

        try:
            self._hooks.append(module.register_forward_pre_hook(record, with_kwargs=True))
        except TypeError:  # torch before 2.0
            self._hooks.append(module.register_forward_pre_hook(record))

    def _hook_output(self, module: Any, layer: int, what: str, convert: Convert) -> None:
        def record(_: Any, args: Any, output: Any) -> None:
            self.add(layer, what, convert(_first_tensor(output)))

        self._hooks.append(module.register_forward_hook(record))
