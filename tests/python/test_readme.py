"""README's lines of Python, run as they stand."""
import re
import subprocess
import sys

from conftest import ROOT


def test_the_ten_lines_of_the_readme_run(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(blocks) == 1
    result = subprocess.run([sys.executable, "-c", blocks[0]], cwd=tmp_path, capture_output=True, text=True)
    assert (result.returncode, result.stdout, result.stderr) == (0, "40 True\n", "")
