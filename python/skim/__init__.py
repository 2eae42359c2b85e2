"""DeepSeek sparse attention (V4.1, V3.2) on CPUs. See docs/python.md."""
from skim import record
from skim._skim import (Batch, CacheCost, Checkpoint, ErrorCode, KernelSetInfo, KvCache, LayerRole, Model, SequenceId,
                        TensorInfo, V32Config, V41Config, V4Config, VerifyHypothesis, VerifyKind, VerifyPlace, VerifyReport, __version__, cache_cost,
                        kernel_sets, layer_role, named_config, parse_config, synthetic_input, verify)
from skim.arrays import to_bf16, to_float32, write_safetensors
from skim.errors import Error, SkimMemoryError, SkimRuntimeError, SkimValueError

__all__ = [
    "Batch", "CacheCost", "Checkpoint", "Error", "ErrorCode", "KernelSetInfo", "KvCache", "LayerRole", "Model",
    "SequenceId", "SkimMemoryError", "SkimRuntimeError", "SkimValueError", "TensorInfo", "V32Config", "V41Config", "V4Config",
    "VerifyHypothesis", "VerifyKind", "VerifyPlace", "VerifyReport", "__version__", "cache_cost", "kernel_sets", "layer_role", "named_config",
    "parse_config", "record", "synthetic_input", "to_bf16", "to_float32", "verify", "write_safetensors",
]
