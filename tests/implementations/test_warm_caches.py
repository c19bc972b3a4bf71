"""A warm compilation cache gives what the code at hand computes, where the program calls back into the process.

Such a program names what it calls by a number or an address, which in another process is something else. Here two
processes compile programs that are alike to the last character and call other things.
"""

import os
import subprocess
import sys

import pytest

from harness.run import caches

PRELUDE = """
import sys
import jax
import jax.numpy as jnp
import numpy as np

factor = float(sys.argv[1])
hits = []
jax.monitoring.register_event_listener(lambda event, **_: hits.append(event) if "cache_hit" in event else None)
"""

WARP_CALLABLE = """
import warp as wp

@wp.kernel
def scale(x: wp.array(dtype=float), factor: float, y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = factor * x[i]

def launch(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    wp.launch(scale, x.shape, [x, factor, y], device=x.device)

call = wp.jax_callable(launch, num_outputs=1, graph_mode=wp.JaxCallableGraphMode.NONE)
function = lambda x: call(x)[0]
"""

WARP_KERNEL = """
import warp as wp

FACTOR = wp.constant(factor)

@wp.kernel
def scale(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = FACTOR * x[i]

call = wp.jax_kernel(scale)
function = lambda x: call(x)[0]
"""

ENZYME = """
from enzyme_ad.jax import cpp_call

source = '''
template <typename T, std::size_t n>
void scale(enzyme::tensor<T, n>& y, const enzyme::tensor<T, n>& x) {
  for (std::size_t i = 0; i < n; ++i) y[i] = FACTOR * x[i];
}
'''.replace("FACTOR", str(factor))

def function(x):
    return cpp_call(x, out_shapes=[jax.core.ShapedArray(x.shape, x.dtype)], source=source, fn="scale")[0]
"""

CALLBACK = """
def function(x):
    return jax.pure_callback(lambda value: np.asarray(factor * value, value.dtype), x, x)
"""

RESULT = """
x = jnp.arange(5, dtype=jnp.float32)
hits.clear()
print("result", *np.asarray(jax.jit(function)(x)), len(hits))
"""


def ask(body, factor, folder):
    """Result of the function on 0 .. 4, and how many programs came from the cache for it."""
    script = folder / "script.py"
    script.write_text(PRELUDE + body + RESULT)
    environment = {**os.environ, **caches.variables(folder), "JAX_PLATFORMS": "cpu"}
    ended = subprocess.run(
        [sys.executable, str(script), str(factor)], env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    words = next(line for line in ended.stdout.splitlines() if line.startswith("result")).split()
    return [float(word) for word in words[1:6]], int(words[-1])


@pytest.mark.parametrize(
    ("module", "body"),
    [("warp", WARP_CALLABLE), ("warp", WARP_KERNEL), ("enzyme_ad", ENZYME), ("jax", CALLBACK)],
    ids=["warp callable", "warp kernel", "enzyme", "callback"],
)
@pytest.mark.thorough
def test_a_program_from_the_cache_calls_what_is_there_now(tmp_path, module, body):
    pytest.importorskip(module)
    assert ask(body, 2.0, tmp_path)[0] == [0.0, 2.0, 4.0, 6.0, 8.0]
    again, hits = ask(body, 3.0, tmp_path)
    assert again == [0.0, 3.0, 6.0, 9.0, 12.0]
    assert hits == 1  # or nothing has been shown
