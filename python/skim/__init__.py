"""DeepSeek sparse attention (V4.1, V3.2) on CPUs. See docs/python.md."""
from skim._skim import (Batch, CacheCost, Checkpoint, ErrorCode, KernelSetInfo, KvCache, LayerRole, Model, SequenceId,
                        TensorInfo, V32Config, V41Config, VerifyHypothesis, VerifyKind, VerifyPlace, VerifyReport, __version__, cache_cost,
                        kernel_sets, layer_role, named_config, parse_config, synthetic_input, verify)
from skim.arrays import to_bf16, to_float32, write_safetensors
from skim.errors import Error, SkimMemoryError, SkimRuntimeError, SkimValueError
