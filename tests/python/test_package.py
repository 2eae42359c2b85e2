"""What the installed package needs, exports, and tells type checkers."""
import importlib.util
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import skim


def test_the_extension_needs_no_library_that_a_machine_may_lack():
    """Fault 146: fmt and xxHash are compiled in."""
    if shutil.which("readelf") is None:
        pytest.skip("no readelf here")
    listed = subprocess.run(["readelf", "-d", "-W", skim._skim.__file__], capture_output=True, text=True, check=True)
    needed = set(re.findall(r"\(NEEDED\).*\[([^\]]*?)\.so", listed.stdout))
    assert "libc" in needed
    assert needed <= {"libc", "libm", "libstdc++", "libgcc_s", "ld-linux-x86-64", "ld-linux-aarch64",
                      "libgomp"}  # OpenMP, until threads are the library's own


def test_import_skim_brings_the_recorder():
    """Fault 144."""
    program = "import skim; print(skim.record.Recorder.__name__)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (0, "Recorder\n"), result.stderr


def test_every_public_name_is_exported():
    assert set(skim.__all__) <= set(dir(skim))
    public = {name for name in dir(skim) if not name.startswith("_")}
    assert public - set(skim.__all__) <= {"arrays", "errors"}  # modules of the package


PROGRAM = """
import numpy as np
import skim
from skim import Checkpoint, KvCache, Model, SequenceId

model = Model(Checkpoint.synthetic("v41-tiny"))
cache = KvCache(model, max_tokens=64)
sequence: SequenceId = cache.add()
with cache.begin({sequence: 3}) as batch:
    x = skim.synthetic_input("x", (batch.tokens, model.config.dim))
    for layer in model.layers:
        model.forward(layer, batch, x)
    batch.commit()
length: int = cache.length(sequence)
recorder = skim.record.Recorder({"dim": 1})
try:
    cache.remove(sequence)
except skim.SkimValueError as error:
    code: skim.ErrorCode = error.code
"""


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="no mypy here")
@pytest.mark.parametrize("what", ["program", pytest.param("package", marks=pytest.mark.xfail(
    strict=True, reason="the generated stub has types without arguments, and __eq__ of narrower ones"))])
def test_mypy_is_strict_and_content(what, tmp_path):
    """Fault 144: "does not explicitly export attribute"."""
    (tmp_path / "program.py").write_text(PROGRAM)
    target = ["program.py"] if what == "program" else ["-p", "skim"]
    result = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), *target],
                            cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_package_says_that_it_is_typed():
    folder = pathlib.Path(skim.__file__).parent
    assert (folder / "py.typed").exists() and (folder / "_skim.pyi").exists()
