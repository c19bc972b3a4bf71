"""Whatever a row does, its case ends within its limit, with the right outcome, and nothing of it is left running."""

import os
import subprocess
import sys
import time
import uuid

import pytest
from fake_cases import FAKES, LIMIT_S, fake, marked, planned

from harness.run import machine
from harness.run.process import FAMILY, TAG, supervise, tagged
from harness.run.runner import CheckRunner
from harness.run.settings import CheckSettings

MEMORY_LIMIT = 600 << 20

HANGING = {
    "ignores_sigterm": "ended after 4 s during compile; last output: about to sleep",
    "hangs_at_import": "ended after 4 s during import",
    "hangs_in_native_code": "during",
    "stops_itself": "during",
    "leaves_daemon_and_hangs": "during",
    "floods_forever": "during",
}

BROKEN = {
    "leaves_grandchild": ("ok", ""),
    "leaves_daemon": ("ok", ""),
    "floods_output": ("ok", ""),
    "floods_and_dies": ("crashed", "the last words"),
    "segfaults": ("crashed", "Segmentation fault) during compile; last output: before the segfault"),
    "aborts": ("crashed", "Aborted) during compile; last output: corrupted size vs. prev_size"),
    "kills_itself": ("crashed", "signal 9"),
    "allocates": ("out-of-memory-host", "limit 0.63 GB"),
    "grandchild_allocates": ("out-of-memory-host", "limit 0.63 GB"),
    "killed_at_full_memory": ("out-of-memory-host", "killed by the system"),
    "raises_memory_error": ("out-of-memory-host", "Unable to allocate"),
    "returns_text": ("bad-output", "'all is well'"),
    "returns_none": ("bad-output", "gradient is no array of numbers"),
    "returns_wrong_shape": ("bad-output", "gradient has shape (100,); expected (50, 2)"),
    "returns_scalar_in_array": ("bad-output", "loss has shape (1,); expected ()"),
    "returns_empty": ("bad-output", "gradient has shape (0, 2)"),
    "garbles_channel": ("bad-output", "garbled output"),
    "floods_channel": ("bad-output", "too much output"),
    "closes_channel": ("crashed", "Bad file descriptor"),
    "exits_quietly": ("crashed", "exit status 0 without a result"),
    "calls_sys_exit": ("error", "SystemExit: 0"),
    "raises": ("error", "RuntimeError: this row has a bug (at raises.py:6)"),
    "has_no_subclass": (
        "error",
        "defines no subclass of Implementation: derive one from harness.contract.protocol.Implementation",
    ),
    "has_syntax_error": ("error", "SyntaxError"),
    "needs_missing_package": ("unavailable", "No module named 'a_framework_that_is_not_installed'"),
    "has_no_device": ("unavailable", "no CUDA device"),
    "supports_nothing": ("unsupported", "runs on Sundays only"),
    "overflows": ("overflow", "2,700,000,000 slots"),
    "refuses_input": ("invalid-input", "position row 7"),
}


@pytest.fixture(scope="module")
def hung():
    """The records of the rows that hang, run side by side."""
    with CheckRunner(CheckSettings(limit_s=LIMIT_S, jobs=len(HANGING)), "test") as runner:
        finished = [*runner.run(planned(name) for name in HANGING)]
    assert tagged(FAMILY) == []
    return {each.record.implementation: each.record for each in finished}


@pytest.mark.parametrize("name", HANGING)
def test_hanging_row_is_ended_at_its_limit(hung, name):
    record = hung[name]
    assert (record.outcome, HANGING[name] in record.reason) == ("timeout", True), record.reason
    assert LIMIT_S <= record.case_s < LIMIT_S + 5.0


@pytest.mark.parametrize("name", BROKEN)
def test_broken_row_ends_with_its_outcome_and_leaves_nothing(bench, name):
    outcome, words = BROKEN[name]
    record = bench(name, memory_limit_bytes=MEMORY_LIMIT if outcome == "out-of-memory-host" else None)
    assert (record.outcome, words in (record.reason or "")) == (outcome, True), record.reason
    assert tagged(FAMILY) == []
    assert record.outcome == "ok" or record.gradient_s is None


def test_memory_limit_ends_a_case_before_the_machine_suffers(bench):
    record = bench("allocates", memory_limit_bytes=MEMORY_LIMIT)
    ended_at = float(record.reason.split(" GB")[0].split()[-1]) * 1e9
    assert MEMORY_LIMIT < ended_at < 2 * MEMORY_LIMIT


def test_device_memory_is_told_from_the_host_s(bench):
    assert bench("raises_device_out_of_memory").outcome == "out-of-memory-host"
    assert bench("raises_device_out_of_memory", device="cuda").outcome == "out-of-memory-device"


def test_build_error_fails_every_launch(bench):
    records = [bench("fails_to_build", number=number) for number in range(3)]
    assert [(r.outcome, "build error" in r.reason) for r in records] == [("error", True)] * 3


def test_children_and_their_children_die_when_the_parent_is_killed():
    mark = uuid.uuid4().hex
    script = f"""
from harness.run.plan import Planned
from harness.contract.protocol import Case
from harness.run.runner import CheckRunner
from harness.run.settings import CheckSettings
mark = {{"TEST_MARK": {mark!r}}}
case = Case(implementation={fake("leaves_daemon_and_hangs")!r}, scenario="published", n=50, variables=mark)
with CheckRunner(CheckSettings(), "test", lambda planned, phase: print(phase, flush=True)) as runner:
    list(runner.run([Planned(case, 0)]))
"""
    parent = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env={**os.environ, "TEST_MARK": mark}
    )
    assert any(line.strip() == "compile" for line in parent.stdout)  # the daemon runs, the row hangs
    assert len(marked(mark)) >= 3
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 10.0
    while marked(mark) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert marked(mark) == []


def test_parent_imports_no_framework():
    script = "import sys, harness.run.runner, harness.run.verdict, harness.run.resume, harness.cli; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.split()
    assert not {"jax", "jaxlib", "torch", "warp", "numba", "enzyme_ad", "multiprocessing"} & set(modules)


def test_worker_imports_no_more_than_it_uses():
    """Every case pays for what its process imports."""
    script = "import sys, harness.run.worker; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.split()
    assert not {"scipy", "pandas", "click", "rich", "tabulate"} & set(modules)


def test_worker_is_started_afresh_not_forked():
    """What the parent holds in memory never reaches a worker: its modules and variables are its own."""
    sys.modules["a_module_only_the_parent_has"] = sys
    try:
        ended = _python("import sys; print('a_module_only_the_parent_has' in sys.modules, file=sys.stderr)")
    finally:
        del sys.modules["a_module_only_the_parent_has"]
    assert ended.tail == "False"


def test_environment_and_cores_are_complete_before_the_interpreter_starts():
    """Read from the kernel: what the process was started with, not what it set later."""
    code = "import os, sys; print(open('/proc/self/environ').read(), os.sched_getaffinity(0), file=sys.stderr)"
    core = machine.available_cores()[-1]
    ended = _python(code, environment={"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "3"}, cores=[core])
    assert "OMP_NUM_THREADS=3" in ended.tail
    assert TAG in ended.tail
    assert "HOME=" not in ended.tail
    assert ended.tail.endswith(f"{{{core}}}")


def test_kernel_caches_are_private(bench):
    assert [bench("wants_a_cold_cache", number=number).outcome for number in range(2)] == ["ok", "ok"]


def test_parent_keeps_its_own_cores():
    before = machine.available_cores()
    _python("pass", cores=before[:1])
    assert machine.available_cores() == before


def test_one_thread_means_one_core(bench):
    assert bench("right", threads=1).observed["cores"] == machine.available_cores()[:1]


def _python(code, environment=None, cores=None):
    """Run a piece of code under supervision."""
    return supervise(
        "executes",
        code,
        environment={**(os.environ if environment is None else environment), "PYTHONPATH": str(FAKES)},
        cores=cores,
        limit_s=60.0,
        memory_limit_bytes=1 << 33,
    )
