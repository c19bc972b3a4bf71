"""What is timed, what is counted, what is marked. Durations are asserted of a fake clock, or of fakes that sleep."""

import pytest

from harness.contract.samples import Samples
from harness.run import sampling
from harness.run.sampling import MAXIMUM_SAMPLES, MINIMUM_SAMPLES, sample


class Clock:
    """Time passes only in the fakes."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr(sampling.time, "perf_counter", lambda: self.now)

    def calls(self, durations):
        """A function whose k-th call takes durations[k], and the last of them from then on."""
        left = list(durations)

        def call(x):
            self.now += left.pop(0) if len(left) > 1 else left[0]
            return x

        return call


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


@pytest.mark.parametrize("budget_s", [0.0, 0.6, 10.0])
def test_compilation_among_the_samples_is_flagged_and_leaves_the_median(clock, budget_s):
    call = clock.calls([0.001, 0.001, 0.001, 0.5, 0.001])
    samples, _ = sample(call, [0], lambda *_: None, budget_s)
    assert samples.median == pytest.approx(0.001)
    assert samples.stalls == 1
    assert max(samples.seconds) == pytest.approx(0.5)


def test_late_outputs_belong_to_the_sample(clock):
    def wait(*outputs):
        clock.now += 0.05

    samples, _ = sample(clock.calls([0.001]), [0], wait, 0.0)
    assert samples.median == pytest.approx(0.051)


def test_inputs_are_there_before_the_clock_starts():
    events = []
    sample(lambda x: events.append(x) or f"out {x}", ["a", "b"], events.append, 0.0)
    assert events[:5] == [["a", "b"], "a", "out a", "b", "out b"]


def test_inputs_take_turns_and_the_last_output_comes_back():
    seen = []
    samples, last = sample(lambda x: seen.append(x) or x, [0, 1, 2, 3], lambda *_: None, 0.0)
    assert seen == [k % 4 for k in range(len(samples.seconds))]
    assert last == seen[-1]


def test_steady_samples_stop_early_and_restless_ones_at_the_budget(clock):
    steady, _ = sample(clock.calls([0.01]), [0], lambda *_: None, 100.0)
    assert len(steady.seconds) == MINIMUM_SAMPLES
    restless, _ = sample(clock.calls([0.01, 0.02] * 1000), [0], lambda *_: None, 1.0)
    assert 60 <= len(restless.seconds) <= 70
    endless, _ = sample(clock.calls([0.01, 0.02] * 1000), [0], lambda *_: None, 1e9)
    assert len(endless.seconds) == MAXIMUM_SAMPLES
    slow, _ = sample(clock.calls([50.0]), [0], lambda *_: None, 0.1)
    assert len(slow.seconds) == MINIMUM_SAMPLES


def test_compile_time_has_its_own_column_and_a_recompilation_is_counted(bench):
    record = bench("sleeps_then_recompiles", n=10)
    assert record.outcome == "ok"
    assert record.compile_forward_s >= 1.0
    assert 1.0e-3 <= record.forward_s < 0.1
    assert record.recompilations >= 1
    assert record.forward_samples_s[3] >= 0.5
    assert max(record.warmup_samples_s) < 0.5


def test_every_output_is_waited_for(bench):
    record = bench("dispatches", n=10)
    assert record.outcome == "ok"
    assert record.forward_s >= 0.05
    assert record.gradient_s >= 0.05


def test_restless_case_is_marked(bench):
    assert bench("noisy", n=10).noisy


def test_sample_below_the_physical_floor_is_refused(bench, check):
    record = bench("too_fast", n=10)
    assert (record.outcome, record.gradient_s) == ("error", None)
    assert "below the floor of 5e-11 s per slot and core" in record.reason
    assert check("too_fast", n=10).outcome == "ok"


def test_samples_are_raw_and_warm_up_is_apart(bench):
    record = bench("right", n=10)
    assert len(record.forward_samples_s) >= MINIMUM_SAMPLES
    assert Samples(record.gradient_samples_s).median == record.gradient_s
    assert Samples(record.gradient_samples_s).iqr == record.gradient_iqr_s
    assert len(record.warmup_samples_s) == 2


def test_memory_of_the_samples_is_seen(bench):
    """The gradient's transient arrays, N^2 pairs and more, lie between the level before the build and the peak."""
    pairs = 500**2
    assert 16 * pairs < bench("right", n=500).peak_host_bytes < 400 * pairs
