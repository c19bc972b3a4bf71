"""What the docs say follows from the code."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.report.schema import schema_page

ROOT = Path(__file__).parent.parent


def test_record_schema_page_is_generated_from_the_code() -> None:
    assert (ROOT / "docs" / "record_schema.md").read_text() == schema_page(), "run make docs"


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("reports/*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.thorough
def test_a_row_is_used_as_a_library_as_the_docs_show(tmp_path: Path) -> None:
    """Gradient descent lowers the loss of uniform particles, and the row is another framework by another name."""
    page = (ROOT / "docs" / "use_a_row.md").read_text()
    (script,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    losses = []
    for name in ("warp_adjoint", "numba_adjoint"):
        (tmp_path / "example.py").write_text(script.replace('"warp_adjoint"', f'"{name}"'))
        command = [sys.executable, str(tmp_path / "example.py")]
        words = subprocess.run(command, cwd="/", check=True, capture_output=True, text=True).stdout.split()
        losses.append(float(words[words.index("loss") + 1]))
    assert losses[0] == pytest.approx(losses[1], rel=1e-9)
    assert losses[0] < 10988.8190581011  # of the positions it starts from, "uniform" of the hard inputs


def test_debugging_script_of_the_docs_runs_beside_a_module_anywhere(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "add_an_implementation.md").read_text()
    (script,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "debug.py").write_text(script)
    shutil.copy(ROOT / "docs" / "template.py", tmp_path / "my_module.py")
    command = [sys.executable, str(tmp_path / "debug.py")]
    words = subprocess.run(command, cwd="/", check=True, capture_output=True, text=True).stdout.split()
    assert float(words[words.index("loss") + 1]) == pytest.approx(12476.36174287, rel=1e-9)
    assert 0.0 <= float(words[-1]) < 1e-9
