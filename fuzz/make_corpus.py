#!/usr/bin/env python3
"""Writes fuzz/corpus: small valid inputs. Case files are cut down from tests/cases."""
import json
import pathlib
import struct

HERE = pathlib.Path(__file__).parent
CASES = HERE.parent / "tests" / "cases"
BITS = {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
        "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "C64": 64, "F64": 64,
        "I64": 64, "U64": 64}


def safetensors(tensors, metadata):
    """`tensors`: name -> (dtype, shape, bytes)."""
    header, data = {}, b""
    if metadata:
        header["__metadata__"] = metadata
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def read(path):
    blob = path.read_bytes()
    start = 8 + struct.unpack("<Q", blob[:8])[0]
    header = json.loads(blob[8:start])
    metadata = header.pop("__metadata__")
    tensors = {name: (e["dtype"], e["shape"], blob[start + e["data_offsets"][0]:start + e["data_offsets"][1]])
               for name, e in header.items()}
    return tensors, metadata


def write(folder, name, content):
    path = HERE / "corpus" / folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def cut_case(source, keep, metadata_changes, budget):
    """The tensors that `keep` wants, smallest first, within `budget` bytes; then in their old order."""
    tensors, metadata = read(CASES / source)
    wanted, used = set(), 0
    for name in sorted(filter(keep, tensors), key=lambda n: len(tensors[n][2])):
        used += len(tensors[name][2]) + len(name) + 80
        if used > budget:
            break
        wanted.add(name)
    metadata = dict(metadata, **metadata_changes)
    return safetensors({n: t for n, t in tensors.items() if n in wanted}, metadata)


def make_safetensors():
    write("safetensors", "none.safetensors", safetensors({}, {}))
    write("safetensors", "scalar.safetensors", safetensors({"x": ("F32", [], b"\0\0\x80\x3f")}, {"format": "pt"}))
    every = {f"t.{d.lower()}": (d, [2, 4], bytes(range(b))) for d, b in BITS.items()}
    write("safetensors", "dtypes.safetensors", safetensors(every, {}))
    some = {"a": ("BF16", [2, 3], bytes(12)), "empty": ("F32", [0, 7], b""), "b\u00e9\"": ("U8", [5], b"abcde")}
    write("safetensors", "names.safetensors", safetensors(some, {"k\n": "v\\", "format": "pt"}))
    layer = {f"layers.{i}.attn.wq_a.{w}": (d, s, bytes(n)) for i in range(4)
             for w, d, s, n in (("weight", "F8_E4M3", [32, 32], 1024), ("scale", "F8_E8M0", [1, 1], 1))}
    write("safetensors", "layers.safetensors", safetensors(layer, {}))


def v41_released_spelling(c):
    text = {
        "model_type": "deepseek_v41", "hidden_size": c["dim"], "num_hidden_layers": c["n_layers"],
        "num_attention_heads": c["n_heads"], "head_dim": c["head_dim"], "qk_rope_head_dim": c["rope_head_dim"],
        "q_lora_rank": c["q_lora_rank"], "o_groups": c["o_groups"], "o_lora_rank": c["o_lora_rank"],
        "sliding_window": c["window_size"], "rms_norm_eps": c["norm_eps"], "rope_theta": c["rope_theta"],
        "rope_scaling": {"type": "yarn", "factor": c["rope_factor"], "beta_fast": c["beta_fast"],
                         "beta_slow": c["beta_slow"], "original_max_position_embeddings": c["original_seq_len"]},
        "compress_rope_theta": c["compress_rope_theta"], "compress_ratios": c["compress_ratios"],
        "kv_source_layer_ids": c["kv_source_layers"], "index_source_layer_ids": c["index_source_layers"],
        "index_n_heads": c["index_n_heads"], "index_head_dim": c["index_head_dim"], "index_topk": c["index_topk"],
        "candidate_source_layer_id": c["candidate_source_layer"],
        "candidate_topk_blocks": c["candidate_topk_blocks"], "candidate_block_size": c["candidate_block_size"],
        "num_nextn_predict_layers": len(c["compress_ratios"]) - c["n_layers"],
    }
    return {"model_type": "deepseek_v41", "architectures": ["DeepseekV41ForCausalLM"], "text_config": text}


def v32_released_spelling(c):
    return {
        "model_type": "deepseek_v32", "architectures": ["DeepseekV32ForCausalLM"], "hidden_size": c["dim"],
        "num_hidden_layers": c["n_layers"], "num_attention_heads": c["n_heads"], "q_lora_rank": c["q_lora_rank"],
        "kv_lora_rank": c["kv_lora_rank"], "qk_nope_head_dim": c["qk_nope_head_dim"],
        "qk_rope_head_dim": c["qk_rope_head_dim"], "v_head_dim": c["v_head_dim"], "rms_norm_eps": 1e-6,
        "rope_theta": c["rope_theta"],
        "rope_scaling": {"type": "yarn", "factor": c["rope_factor"], "beta_fast": c["beta_fast"],
                         "beta_slow": c["beta_slow"], "mscale": c["mscale"], "mscale_all_dim": c["mscale"],
                         "original_max_position_embeddings": c["original_seq_len"]},
        "quantization_config": {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8",
                                "scale_fmt": c["scale_fmt"], "weight_block_size": [128, 128]},
        "index_n_heads": c["index_n_heads"], "index_head_dim": c["index_head_dim"], "index_topk": c["index_topk"],
        "num_nextn_predict_layers": 1,
    }


def make_config():
    for source in ("v41-tiny-fp8", "v41-flash-layers", "v32-tiny-fp8"):
        config = json.loads(read(CASES / f"{source}.safetensors")[1]["config"])
        spelling = v32_released_spelling if source.startswith("v32") else v41_released_spelling
        write("config", f"{source}-inference.json", json.dumps(config, indent=1).encode())
        write("config", f"{source}-released.json", json.dumps(spelling(config)).encode())


def make_case_file():
    two = json.dumps([{"start_pos": 0, "seqlen": 1, "batch": 2, "reset": True},
                      {"start_pos": 1, "seqlen": 1, "batch": 2, "reset": False}])
    for source in ("v41-tiny-fp8", "v41-tiny-bf16", "v32-tiny-fp8"):
        first = lambda name: name.startswith(("call.0.", "call.1."))
        write("case_file", f"{source}.safetensors", cut_case(f"{source}.safetensors", first, {"calls": two}, 12000))
    flash = lambda name: not name.endswith((".out", ".o"))
    write("case_file", "v41-flash-layers.safetensors", cut_case("v41-flash-layers.safetensors", flash, {}, 12000))


make_safetensors()
make_config()
make_case_file()
