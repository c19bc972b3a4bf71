"""What is particular to Enzyme's rows: who made the derivative, what a failed one looks like, and calls at once."""

import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("enzyme_ad")

import jax
import jax.numpy as jnp

from harness.check.judgement import tolerance
from harness.check.oracle import reference
from harness.problems.sph2d import Sph2d, published_positions
from implementations._enzyme import call as enzyme_call
from implementations.enzyme_loops.implementation import EnzymeLoops
from implementations.enzyme_loops_threads.implementation import EnzymeLoopsThreads
from implementations.enzyme_pair.implementation import EnzymePair

N = 300
PROBLEM = Sph2d.of_size(N)


@pytest.fixture(params=[EnzymeLoops, EnzymeLoopsThreads, EnzymePair])
def kind(request):
    return request.param


@pytest.fixture
def positions():
    return np.random.default_rng(2).random((N, 2)) * PROBLEM.box_length


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """A copy of the C++ sources that a test may edit; what is built during the test is built from it."""
    folder = tmp_path / "implementations"
    shutil.copytree(enzyme_call.SOURCES, folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    monkeypatch.setattr(enzyme_call, "SOURCES", folder)
    return folder


def edit(path: Path, old: str, new: str):
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def central_difference(row, x, direction, step=1e-6):
    ahead, behind = (float(row.loss(row.to_device(x + sign * step * direction))) for sign in (1, -1))
    return (ahead - behind) / (2 * step)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_gradient_matches_the_oracle_where_loops_are_long_enough_to_be_vectorised(kind, dtype):
    n = 20_000
    problem, x = Sph2d.of_size(n), published_positions(n).astype(dtype)
    row = kind(problem, x, "cpu", dtype)
    expected = reference("published", problem, x)
    got = row.to_numpy(row.grad(row.to_device(x)))
    assert got.dtype == dtype
    assert np.abs(got - expected.gradient).max() <= tolerance(problem, dtype) * expected.gradient_scale


def test_gradient_follows_another_kernel_so_no_derivative_of_it_is_written_by_hand(kind, sources, positions):
    edit(
        sources / "_enzyme/density.h",
        "return Real(0.25) * outer",
        "return Real(0.5) * inner * inner + Real(0.25) * outer",
    )
    row = kind(PROBLEM, positions, "cpu", "float64")
    direction = np.random.default_rng(3).normal(size=(N, 2))
    got = float(np.vdot(row.to_numpy(row.grad(row.to_device(positions))), direction))
    assert got == pytest.approx(central_difference(row, positions, direction), rel=1e-6)
    assert got != pytest.approx(float(np.vdot(reference("", PROBLEM, positions).gradient, direction)), rel=1e-3)


def test_what_enzyme_cannot_differentiate_fails_the_compilation(kind, sources, positions):
    density = sources / "_enzyme/density.h"
    edit(density, "#pragma once", '#pragma once\nextern "C" double lgamma_r(double, int*);')
    edit(density, "const Real q = r * inverse_h;", "int sign; const Real q = r * inverse_h + 0 * lgamma_r(r, &sign);")
    row = kind(PROBLEM, positions, "cpu", "float64")
    with pytest.raises(RuntimeError, match="Enzyme"):
        row.compile_gradient(row.to_device(positions))


def test_source_that_does_not_compile_fails_with_the_compilers_words(sources, positions):
    edit(sources / "enzyme_loops/forward.cpp", "loss = 0;", "loss = undeclared;")
    row = EnzymeLoops(PROBLEM, positions, "cpu", "float64")
    with pytest.raises(RuntimeError, match="undeclared"):
        row.compile_forward(row.to_device(positions))


@pytest.mark.parametrize(
    "words", ["warning: unused", "warning: unused variable 'error'", "no errors: error_model is numpy", "0 errors"]
)
def test_words_that_are_no_error_are_passed_on(capfd, words):
    with enzyme_call.compiler_errors():
        os.write(2, words.encode() + b"\n")
    assert words in capfd.readouterr().err


@pytest.mark.parametrize("words", ["a.h:3:5: error: use of undeclared identifier", "fatal error: 'x.h' file not found"])
def test_words_that_are_an_error_are_raised(words):
    with pytest.raises(RuntimeError, match=re.escape(words)), enzyme_call.compiler_errors():
        os.write(2, words.encode() + b"\n")


@pytest.mark.parametrize("name", ["loss", "grad"])
@pytest.mark.parametrize("transform", [jax.jacrev, jax.jacfwd, jax.hessian])
def test_derivatives_through_jax_are_refused(name, transform, positions):
    row = EnzymeLoops(PROBLEM, positions, "cpu", "float64")
    derivative = jax.jit(transform(lambda x: row.traceable(name)(x)[0]))
    with pytest.raises(NotImplementedError):
        derivative(row.to_device(positions))


@pytest.mark.parametrize("name", ["loss", "grad"])
def test_batches_are_refused(name, positions):
    row = EnzymeLoops(PROBLEM, positions, "cpu", "float64")
    batch = jax.jit(jax.vmap(lambda x: row.traceable(name)(x)[0]))
    with pytest.raises(NotImplementedError):
        batch(row.to_device(positions)[None])


@pytest.mark.parametrize("transform", [jax.jacrev, jax.vmap, jax.jit])
def test_row_inside_a_transformation_is_refused(kind, transform, positions):
    row = kind(PROBLEM, positions, "cpu", "float64")
    x = row.to_device(positions)
    with pytest.raises(NotImplementedError):
        transform(row.grad)(x[None] if transform is jax.vmap else x)


def test_integer_arrays_beside_the_positions_are_constants(tmp_path, monkeypatch):
    (tmp_path / "weighted.cpp").write_text("""
        static double weighted(const double* x, const std::int32_t* index, std::int64_t n) {
          double sum = 0;
          for (std::int64_t i = 0; i < n; ++i) sum += x[index[i]] * x[index[i]];
          return sum;
        }
        template <std::size_t N>
        void gradient(enzyme::tensor<double, N>& gradient, const enzyme::tensor<double, N>& x,
                      const enzyme::tensor<std::int32_t, N>& index) {
          gradient = 0;
          enzyme::__enzyme_autodiff<void>((void*)weighted, enzyme_dup, &x[0], &gradient[0], enzyme_const, &index[0], N);
        }
    """)
    monkeypatch.setattr(enzyme_call, "SOURCES", tmp_path)
    x, index = jnp.array([1.0, 2.0, 4.0]), jnp.array([0, 2, 2], jnp.int32)
    output = (jax.ShapeDtypeStruct((3,), jnp.float64),)
    with enzyme_call.compiler_errors():
        (got,) = jax.jit(lambda x, index: enzyme_call.call("weighted.cpp", "gradient", output, x, index))(x, index)
    assert np.array_equal(got, [2.0, 0.0, 16.0])


def test_calls_at_once_share_no_memory(kind):
    n = 20_000
    problem, rng = Sph2d.of_size(n), np.random.default_rng(4)
    row = kind(problem, rng.random((n, 2)), "cpu", "float64")
    inputs = [row.to_device(rng.random((n, 2)) * problem.box_length) for _ in range(8)]
    alone = [row.to_numpy(row.grad(x)) for x in inputs]
    with ThreadPoolExecutor(4) as executor:
        together = list(executor.map(lambda x: row.to_numpy(row.grad(x)), inputs))
    assert all(np.array_equal(a, b) for a, b in zip(alone, together, strict=True))


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (
            "fpu avx512f avx512bw avx512cd avx512dq avx512vl avx2 bmi1 bmi2 f16c fma abm movbe",
            ("-target-cpu", "x86-64-v4"),
        ),
        ("fpu avx512f avx2 bmi1 bmi2 f16c fma abm movbe", ("-target-cpu", "x86-64-v3")),
        ("fpu cx16 popcnt sse4_1 sse4_2 ssse3", ("-target-cpu", "x86-64-v2")),
        ("fpu", ()),
    ],
)
def test_instruction_set_is_the_highest_level_the_processor_has(flags, expected, tmp_path):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor\t: 0\nflags\t\t: {flags}\n")
    assert enzyme_call.target_flags(cpuinfo) == expected
    assert enzyme_call.target_flags(tmp_path / "absent") == ()
