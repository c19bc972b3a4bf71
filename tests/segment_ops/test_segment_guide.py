"""The guide: its table lists exactly the transforms that the tests check, and its examples run."""

import re
from pathlib import Path

import on_two_devices
import pytest
import test_jax_transforms
import test_torch_transforms

GUIDE = Path(__file__).parents[2] / "docs" / "segment_operations.md"


def table():
    """The lines that the tests stand for."""
    jax = [*test_jax_transforms.TRANSFORMS, *(f"shard_map, {route}" for route in on_two_devices.SHARD_MAP)]
    jax += [*on_two_devices.PMAP, "jit of sharded arrays", "vmap over a sharded axis", "disable_jit"]
    torch = [*test_torch_transforms.TRANSFORMS, "compile for any number of segments"]
    torch += ["gradcheck, gradgradcheck, opcheck"]
    rows = [("JAX", name, "right") for name in jax]
    rows += [("JAX", "debug_nans", "right, and FloatingPointError where a NaN arises")]
    rows += [("Torch", name, "right") for name in torch]
    rows += [("Torch", "forward mode of a compiled or exported function", "NotImplementedError")]
    return "".join(f"| {framework} | {name} | {outcome} |\n" for framework, name, outcome in rows)


def test_table_of_transforms_is_what_the_tests_check():
    found = "".join(re.findall(r"^\| (?:JAX|Torch) \| .*\n", GUIDE.read_text(), re.M))
    assert found == table()


@pytest.mark.parametrize("framework", ["jax", "torch"])
def test_example_runs(framework):
    (code,) = (
        block for block in re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.S) if f"{framework}_ops" in block
    )
    names = {}
    exec(code, names)
    assert names["gradient"].shape == (3, 3)
    assert names["curvature"].shape == (3, 3, 3, 3)
