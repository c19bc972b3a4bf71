"""What a code hash covers: the row with all it leads to, the harness that measures it, and no other row."""

import pytest

from harness.contract import registry
from harness.contract.sources import closure, digest, module_files

PACKAGE = {
    "row.py": "",
    "helper.py": "",
    "other.py": "",
    "package/__init__.py": "",
    "package/inner/__init__.py": "",
    "package/inner/deep.py": "from .. import sibling",
    "package/inner/near.py": "from .deep import f",
    "package/sibling.py": "",
    "native/kernel.cpp": '#include <cmath>\n  # include "native/cells.h"\n',
    "native/cells.h": '#include "pairs.h"',
    "native/pairs.h": "",
}
DEEP = {"package/__init__.py", "package/inner/__init__.py", "package/inner/deep.py", "package/sibling.py"}
NATIVE = {"native/kernel.cpp", "native/cells.h", "native/pairs.h"}


@pytest.fixture
def folder(tmp_path):
    for name, text in PACKAGE.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "led_to"),
    [
        ("import helper", {"helper.py"}),
        ("import numpy, helper as h", {"helper.py"}),
        ("from helper import f", {"helper.py"}),
        ("def late():\n    import helper", {"helper.py"}),
        ("try:\n    import helper\nexcept ImportError:\n    pass", {"helper.py"}),
        ("from . import helper", {"helper.py"}),
        ("from .helper import *", {"helper.py"}),
        ("import package.inner.deep", DEEP),
        ("from package.inner import deep", DEEP),
        ("from package.inner.deep import f", DEEP),
        ("from package.inner.near import f", DEEP | {"package/inner/near.py"}),
        ("SOURCE = 'native/kernel.cpp'", NATIVE),
        ("SOURCE = 'no_such_file.cpp'", set()),
        ("import a_package_nobody_has", set()),
        ("def broken(:", set()),
        ("a null\0byte", set()),
    ],
)
def test_a_file_leads_to_what_it_imports_includes_and_names(folder, text, led_to):
    row = folder / "row.py"
    row.write_text(text)
    found = closure([row], [folder], [folder])
    assert {str(path.relative_to(folder)) for path in found} == led_to | {"row.py"}


def test_the_first_folder_that_has_a_module_goes_first(folder, tmp_path_factory):
    nearer = tmp_path_factory.mktemp("nearer")
    (nearer / "helper.py").touch()
    assert module_files("helper", [nearer, folder]) == [nearer / "helper.py"]
    assert module_files("helper.SomeClass.method", [folder]) == [folder / "helper.py"]
    assert module_files("numpy", [nearer, folder]) == []


def test_files_that_import_each_other_are_read_once(folder):
    (folder / "row.py").write_text("import helper")
    (folder / "helper.py").write_text("import row")
    assert closure([folder / "row.py"], [folder]) == {folder / "row.py", folder / "helper.py"}


def test_what_is_outside_is_left_out_with_what_it_leads_to(folder):
    (folder / "row.py").write_text("import helper, other")
    (folder / "helper.py").write_text("import package.sibling")
    found = closure([folder / "row.py"], [folder], outside=[folder / "helper.py"])
    assert found == {folder / "row.py", folder / "other.py"}


def test_digest_follows_contents_not_names(folder):
    before = digest([folder / "row.py", folder / "native/kernel.cpp"])
    moved = (folder / "native/kernel.cpp").rename(folder / "moved.cpp")
    assert digest([moved, folder / "row.py"]) == before
    moved.write_text("// a comment\n" + moved.read_text())
    assert digest([moved, folder / "row.py"]) != before


@pytest.mark.parametrize(
    ("edited", "changes"), [("row.py", True), ("helper.py", True), ("native/pairs.h", True), ("other.py", False)]
)
def test_hash_of_a_plug_in_follows_its_helpers(folder, edited, changes):
    row = folder / "row.py"
    row.write_text("import helper\nSOURCE = 'native/kernel.cpp'")
    before = registry.code_hash.__wrapped__(str(row))
    with (folder / edited).open("a") as file:
        file.write("\n# edited\n")
    assert (registry.code_hash.__wrapped__(str(row)) != before) is changes


def test_hash_of_a_plug_in_is_the_same_wherever_it_lies(folder, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    for name in ("row.py", "helper.py"):
        (folder / name).write_text("import helper")
        (elsewhere / name).write_text("import helper")
    assert registry.code_hash(str(folder / "row.py")) == registry.code_hash(str(elsewhere / "row.py"))


@pytest.mark.parametrize("name", registry.names())
def test_sources_of_a_row_are_its_own_its_framework_s_and_the_measuring_harness(name):
    sources = registry.sources(name)
    own = {path for path in (registry.FOLDER / name).rglob("*") if path.suffix in (".py", ".cpp", ".h")}
    assert own <= sources
    harness = {path.relative_to(registry.ROOT / "harness").as_posix() for path in sources if "harness" in path.parts}
    assert {"run/worker.py", "run/process.py", "run/child.py", "check/oracle.py", "contract/protocol.py"} <= harness
    assert not [path for path in harness if path.startswith(("cli", "report/", "run/runner", "run/verdict"))]


def test_a_header_of_enzyme_is_no_source_of_another_framework():
    headers = {path for path in registry.sources("enzyme_loops") if path.suffix == ".h"}
    assert headers
    others = [name for name in registry.names() if not name.startswith("enzyme")]
    assert not any(headers & registry.sources(name) for name in others)
