"""The Warp kernels as a GPU would get them, compiled ahead of time without one."""

import re
import shutil
import subprocess

import pytest
import warp as wp

from harness.contract.protocol import DTYPES
from implementations._warp import cells, loss
from implementations._warp.launch import specialised
from implementations.warp_adjoint import adjoint, forward
from implementations.warp_autodiff import forward as autodiff

ARCHITECTURES = [90, *(pytest.param(each, marks=pytest.mark.thorough) for each in (80, 120))]
MODULES = {
    "cells": cells,
    "density": forward,
    "loss": loss,
    "adjoint": adjoint,
    "autodiff": autodiff,
}
PTXAS = shutil.which("ptxas")


@pytest.fixture(scope="module")
def compile_to_ptx(tmp_path_factory):
    """(name of a module, architecture) -> its PTX, both precisions in it; each compiled once."""
    texts = {}

    def compile_once(name, architecture):
        if (name, architecture) not in texts:
            module = MODULES[name]
            for kernel in vars(module).values():
                if isinstance(kernel, wp.Kernel) and kernel.is_generic:
                    for dtype in DTYPES:
                        specialised(kernel, dtype)
            folder = tmp_path_factory.mktemp(name)
            paths = wp.compile_aot_module(module, arch=architecture, use_ptx=True, module_dir=folder)
            (path,) = (path for path in paths if path.suffix == ".ptx")
            texts[name, architecture] = path.read_bytes().rstrip(b"\0").decode()
        return texts[name, architecture]

    return compile_once


def _assemble(ptx, architecture, folder):
    """What `ptxas -v` reports.

    Warp's compiler may be newer than the assembler, which then refuses the version in the header, though these kernels
    use nothing new: the header is lowered to the version that the assembler names.
    """
    path = folder / "kernels.ptx"
    command = [PTXAS, "-v", f"-arch=sm_{architecture}", str(path), "-o", str(folder / "kernels.cubin")]
    path.write_text(ptx)
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if too_new := re.search(r"Unsupported \.version .*current version is '([\d.]+)'", result.stderr):
        path.write_text(re.sub(r"(?m)^\.version .*$", f".version {too_new[1]}", ptx, count=1))
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stderr


def _resources(report):
    """(kernel, registers, bytes of spill stores and loads) for every kernel of a report."""
    pattern = r"entry function '(\w+)'.*?(\d+) bytes spill stores, (\d+) bytes spill loads.*?Used (\d+) registers"
    found = re.findall(pattern, report, re.DOTALL)
    return [(kernel, int(registers), int(stores) + int(loads)) for kernel, stores, loads, registers in found]


def _precisions(ptx):
    """Kernel -> the widest floating point its text names."""
    _, *entries = re.split(r"\.entry (\w+)\(", ptx)
    return {name: _precision(text) for name, text in zip(*[iter(entries)] * 2, strict=True)}


def _precision(text):
    return "float64" if ".f64" in text else "float32" if ".f32" in text else "(moves only)"


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", MODULES)
def test_kernels_compile_for_the_architecture(compile_to_ptx, name, architecture):
    ptx = compile_to_ptx(name, architecture)
    assert f".target sm_{architecture}" in ptx
    assert ".entry" in ptx


@pytest.mark.parametrize("name", ["density", "adjoint"])
def test_gather_kernels_have_no_atomics(compile_to_ptx, name):
    assert not re.search(r"\b(atom|red)\.", compile_to_ptx(name, 90))


def test_reverse_mode_scatters_with_atomics(compile_to_ptx):
    """The pattern of the test above is one that finds atomics."""
    assert re.search(r"\b(atom|red)\.", compile_to_ptx("autodiff", 90))


@pytest.mark.parametrize(("name", "kernel"), [("density", "residual_kernel"), ("adjoint", "gather_gradient_kernel")])
def test_float32_kernels_hold_no_float64(compile_to_ptx, name, kernel):
    precisions = _precisions(compile_to_ptx(name, 90))
    assert sorted(precisions[k] for k in precisions if k.startswith(kernel)) == ["float32", "float64"]


@pytest.mark.skipif(PTXAS is None, reason="no ptxas")
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", ["density", "adjoint"])
def test_gather_kernels_assemble_without_spills(compile_to_ptx, add_to_summary, tmp_path, name, architecture):
    ptx = compile_to_ptx(name, architecture)
    report = _assemble(ptx, architecture, tmp_path)
    kernels, precisions = _resources(report), _precisions(ptx)
    for kernel, registers, spilled in kernels:
        short = kernel.split("_cuda_")[0].rsplit("_", 1)[0].strip("_")
        add_to_summary(
            f"sm_{architecture} {short} {precisions[kernel]}: {registers} registers, {spilled} bytes spilled"
        )
    assert {kernel for kernel, _, _ in kernels} == set(precisions)
    assert [spilled for _, _, spilled in kernels] == [0] * len(kernels)
