"""README's Python program, run as it stands."""
import re
import subprocess
import sys

from conftest import ROOT


def test_the_program_of_the_readme_runs(tmp_path):
    readme = (ROOT / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    assert len(blocks) == 1
    result = subprocess.run([sys.executable, "-c", blocks[0]], cwd=tmp_path, capture_output=True, text=True)
    assert (result.returncode, result.stdout, result.stderr) == (0, "42 tokens, its fork 43\n", "")
    assert "\n    " + result.stdout in readme
