"""Extras of the package: what a missing module says, and that pyproject.toml has what it names."""

import tomllib

import pytest

from harness.contract.extras import EXTRAS, missing_module
from harness.contract.registry import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DISTRIBUTIONS = {
    "enzyme_ad": "enzyme-ad",
    "jax_md": "jax-md",
    "nvalchemiops": "nvalchemi-toolkit-ops",
    "warp": "warp-lang",
}


@pytest.mark.parametrize("module", EXTRAS)
def test_the_extra_that_is_named_brings_the_module(module):
    wanted = PROJECT["optional-dependencies"][EXTRAS[module]]
    assert any(each.startswith(DISTRIBUTIONS.get(module, module)) for each in wanted)


def test_every_extra_but_that_of_contributors_is_named_by_some_module():
    assert {*EXTRAS.values()} == {*PROJECT["optional-dependencies"]} - {"dev"}


def test_no_framework_is_needed_to_list_check_or_report():
    names = {DISTRIBUTIONS.get(module, module) for module in EXTRAS}
    assert not [each for each in PROJECT["dependencies"] if each.startswith(tuple(names))]


def test_a_missing_module_names_what_installs_it():
    error = ModuleNotFoundError("No module named 'jax_md.partition'", name="jax_md.partition")
    assert missing_module(error) == "No module named 'jax_md.partition': pip install 'pairgrad[jax]'"
    unknown = ModuleNotFoundError("No module named 'mine'", name="mine")
    assert missing_module(unknown) == "No module named 'mine'"
