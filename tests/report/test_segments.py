"""The segment operations' timings: which files are read, what the ratios are, and what the page says of them."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from made_up_segments import MACHINE, OPS, STAGES, benchmarks, content

from harness.contract import identity
from harness.contract.store import RecordsError, read_records
from harness.report import segments, segments_figure
from harness.run import machine

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def write(tmp_path):
    def into(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return tmp_path

    return into


def run_of(write, made, **changes):
    (run,) = segments.read_runs([write("segments/a.json", content(made, **changes))])
    return run


def quicker_where(**where):
    """Another library takes a quarter of our time where the input is such, and twice our time elsewhere."""
    return lambda info: 0.25 if all(info[name] == value for name, value in where.items()) else 2.0


def cells(table):
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    return [rows[0], *rows[2:]]


def test_summary_by_hand(write):
    quicker = quicker_where(op="segmented_mul", order="shuffled", library="plain", framework="jax")
    run = run_of(write, benchmarks(quicker))
    header, *rows = cells(segments.summary(run))
    assert header == ["against", "ids", "forward", "gradient", "lowest"]
    assert rows == [
        # sqrt(2 * 0.25), the fourth root of 2 * 2 * 2 * 0.25, and of one operation sqrt(2 * 0.25)
        ["JAX plain", "sorted", "2.00", "2.00", "sum, forward: 2.00"],
        ["JAX plain", "shuffled", "**0.71**", "**0.71**", "mul, forward: **0.25**"],
        ["JAX plain", "sorted and shuffled", "1.19", "1.19", "mul, forward: **0.71**"],
        ["JAX peer", "sorted", "2.00", "2.00", "sum, forward: 2.00"],
        ["JAX peer", "shuffled", "2.00", "2.00", "sum, forward: 2.00"],
        ["JAX peer", "sorted and shuffled", "2.00", "2.00", "sum, forward: 2.00"],
        ["Torch plain", "sorted", "2.00", "2.00", "sum, forward: 2.00"],
        ["Torch plain", "shuffled", "2.00", "2.00", "sum, forward: 2.00"],
        ["Torch plain", "sorted and shuffled", "2.00", "2.00", "sum, forward: 2.00"],
        ["Torch peer", "sorted", "2.00", "2.00", "sum, forward: 2.00"],
        ["Torch peer", "shuffled", "2.00", "2.00", "sum, forward: 2.00"],
        ["Torch peer", "sorted and shuffled", "2.00", "2.00", "sum, forward: 2.00"],
    ]


def test_details_are_means_over_inputs_of_one_operation(write):
    run = run_of(write, benchmarks(quicker_where(op="segmented_sum", n=100, stage="gradient", library="peer")))
    header, *rows = cells(segments.details(run))
    assert [row[:2] for row in rows] == [[stage, op.removeprefix("segmented_")] for stage in STAGES for op in OPS]
    found = {(*row[:2], name): cell for row in rows for name, cell in zip(header[2:], row[2:], strict=True)}
    lower = {key for key, cell in found.items() if cell == "**0.71**"}
    assert lower == {("gradient", "sum", f"{f} peer, {order}") for f in ("JAX", "Torch") for order in segments.ORDERS}
    assert {found[key] for key in found.keys() - lower} == {"2.00"}


def test_guide_names_what_is_faster_elsewhere(write):
    guide = segments.guide_block([run_of(write, benchmarks(quicker_where(op="segmented_mul", library="plain", n=100)))])
    faster = [line for line in guide.splitlines() if line.startswith("- ")]
    assert faster == [
        f"- {framework} plain, {order} ids: mul, forward (0.71); mul, gradient (0.71)"
        for framework in ("JAX", "Torch")
        for order in segments.ORDERS
    ]
    assert "Nothing is faster" in segments.guide_block([run_of(write, benchmarks())])


def test_provenance(write):
    run = run_of(write, benchmarks())
    page = segments.page([run])
    assert (
        "*cpu; N = 100, 1,000; 10 segments; float64; measured 2026-01-02; commit 0123456789; jax 1.0, warp-lang 1.0.*"
        in page
    )
    assert "## Imagined CPU @ 3 GHz, 2 cores" in page
    assert f"(figures/{run.name}.svg)" in page


def test_a_machine_without_the_peer_has_no_lines_of_it(write):
    run = run_of(write, [b for b in benchmarks() if b["extra_info"]["library"] != "peer"])
    assert "peer" not in segments.summary(run) + segments.details(run)
    assert segments_figure.figure(run).legends


def test_nothing_measured():
    assert segments.read_runs([]) == []
    assert "Not measured" in segments.page([])
    assert "Not measured" in segments.guide_block([])


def test_devices_are_apart_and_the_accelerator_is_named(write):
    folder = write("a.json", content(benchmarks()))
    write("b.json", content(benchmarks(lambda info: 3.0, device="cuda")))
    cpu, cuda = segments.read_runs([folder])
    assert (cpu.computer.hardware, cuda.computer.hardware) == ("CPU", "Imagined GPU")
    assert set(cpu.ratios["ratio"]) == {2.0}
    assert set(cuda.ratios["ratio"]) == {3.0}
    assert "## Imagined GPU (Imagined CPU @ 3 GHz, 2 cores)\n\n*cuda; " in segments.page([cpu, cuda])
    assert cpu.name != cuda.name


def test_the_newest_run_of_a_machine_counts(write):
    folder = write("b/old.json", content(benchmarks(), datetime="2026-01-01T00:00:00+00:00"))
    write("a/new.json", content(benchmarks(lambda info: 3.0), datetime="2026-01-02T00:00:00+00:00"))
    write("c/older.json", content(benchmarks(), datetime="2025-01-01T00:00:00+00:00"))
    (run,) = segments.read_runs([folder])
    assert set(run.ratios["ratio"]) == {3.0}


@pytest.mark.parametrize(
    "foreign",
    ["[]", "{}", '{"agree": true, "records": []}', '{"benchmarks": [{"extra_info": {}, "stats": {}}]}', "3", "null"],
)
def test_other_json_is_left_alone(write, foreign):
    assert segments.read_runs([write("other.json", foreign)]) == []


def without(name):
    made = benchmarks()
    del made[0]["extra_info"][name]
    return content(made)


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("", "truncated"),
        (content(benchmarks())[:-1], "truncated"),
        (without("stage"), "`stage`"),
        (content([{**benchmarks()[0], "stats": {}}]), "`median`"),
        (content([{**benchmarks()[0], "stats": {"median": 0.0}}]), "> 0"),
        (json.dumps({"benchmarks": benchmarks()}), "`machine_info`"),
    ],
)
def test_a_broken_file_is_named(write, broken, said):
    with pytest.raises(RecordsError, match=said) as raised:
        segments.read_runs([write("broken.json", broken)])
    assert "broken.json: " in str(raised.value)


def test_records_and_timings_share_a_folder(write):
    assert read_records([write("a.json", content(benchmarks()))]) == []


def test_local_timings_are_left_out_of_the_default_folder_alone(write, monkeypatch):
    monkeypatch.chdir(write("results/local/a.json", content(benchmarks())))
    assert segments.read_runs([Path("results")]) == []
    assert len(segments.read_runs([Path("results/local")])) == 1


def test_a_dirty_commit_has_a_plus_sign(write):
    folder = write("a.json", content(benchmarks(), commit_info={"id": "0123456789abcdef", "dirty": True}))
    assert "commit 0123456789+" in segments.page(segments.read_runs([folder]))


def test_figure_plots_the_means(write):
    run = run_of(
        write, benchmarks(quicker_where(op="segmented_mul", library="peer", framework="torch", order="sorted"))
    )
    figure = segments_figure.figure(run)
    plotted = [sorted({float(x) for line in axes.lines[:-1] for x in line.get_xdata()}) for axes in figure.axes]
    assert plotted == [[2.0], [2.0], [0.25, 2.0], [0.25, 2.0]]
    low, high = figure.axes[0].get_xlim()
    assert low < 0.25
    assert high > 2.0
    assert MACHINE["processor"] in figure._suptitle.get_text()


def test_what_the_benchmark_writes_is_read_and_names_no_host(write):
    spec = importlib.util.spec_from_file_location("benchmark_hooks", BENCHMARKS / "conftest.py")
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    machine_info, commit_info = {"node": "my-host"}, {"id": "0", "branch": "my-branch", "project": "my-folder"}
    hooks.pytest_benchmark_update_machine_info(machine_info)
    hooks.pytest_benchmark_update_commit_info(commit_info)
    (timed, *_) = benchmarks()
    timed |= {"fullname": "test_segments", "stats": {**timed["stats"], "data": [1.0] * 5}}
    other = {"fullname": "test_row", "extra_info": {}, "stats": {"data": [1.0]}}
    written = json.loads(content([timed, other], machine_info=machine_info, commit_info=commit_info))
    hooks.pytest_benchmark_update_json(SimpleNamespace(getoption=lambda name: "a.json"), written)
    assert written["benchmarks"] == [*benchmarks()[:1], other]
    assert "my-" not in json.dumps(written)
    run = run_of(write, written["benchmarks"], machine_info=machine_info, commit_info=commit_info)
    assert run.computer.machine == identity.machine(machine.environment()).name
    assert "numpy" in run.packages
