"""Kernel caches: one for the same versions, sources and processor; warm for a check, cold for a timing."""

import os
import shutil
import subprocess
import sys
import time

import pytest

from harness.contract import registry
from harness.run import caches, machine


@pytest.fixture
def root(monkeypatch, tmp_path):
    root = tmp_path / "caches"
    monkeypatch.setenv(caches.OVERRIDE, str(root))
    return root


@pytest.fixture
def sources(monkeypatch, tmp_path):
    """A copy of the implementations, to change."""
    copy = tmp_path / "implementations"
    shutil.copytree(registry.FOLDER, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(registry, "FOLDER", copy)
    return copy


def age(folder, seconds):
    then = time.time() - seconds
    os.utime(folder, (then, then))


def test_the_same_versions_and_sources_share_a_folder(root):
    assert caches.folder() == caches.folder() == caches.folder("warp_adjoint")
    assert caches.folder().parent == root


@pytest.mark.parametrize("suffix", [".py", ".cpp", ".h"])
def test_changed_sources_have_another(root, sources, suffix):
    before = caches.folder()
    changed = next(path for path in sources.rglob(f"*{suffix}"))
    changed.write_bytes(changed.read_bytes() + b"\n")
    assert caches.folder() != before
    changed.rename(changed.with_name(f"renamed{suffix}"))
    assert caches.folder() != before


def test_other_versions_and_another_processor_have_another(root, monkeypatch):
    before = caches.folder()
    with monkeypatch.context() as patch:
        patch.setattr(machine, "package_versions", lambda: {"jax": "0.0.1"})
        assert caches.folder() != before
    monkeypatch.setattr(caches, "_processor", lambda: ["flags : none"])
    assert caches.folder() != before


def test_a_module_given_by_path_has_one_of_its_own(root, tmp_path):
    module = tmp_path / "mine.py"
    found = []
    for text in ("a = 1", "a = 2"):
        module.write_text(text)
        registry.code_hash.cache_clear()
        found.append(caches.folder(str(module)))
    assert len({*found, caches.folder()}) == 3


def test_it_lies_in_the_users_cache_and_never_in_the_repository(monkeypatch, tmp_path):
    monkeypatch.delenv(caches.OVERRIDE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert caches.folder().parent == tmp_path / "xdg" / "pairgrad"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert caches.folder().parent == tmp_path / ".cache" / "pairgrad"
    assert not caches.folder().is_relative_to(registry.ROOT)


def test_where_none_can_be_made_there_is_one_for_this_process(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv(caches.OVERRIDE, str(tmp_path / "file" / "below"))
    assert caches.folder().is_dir()
    assert caches.folder() == caches.folder()


def test_what_is_old_and_beyond_a_few_is_removed_and_nothing_else(root):
    mine = caches.folder()
    for number in range(caches.KEPT + 2):
        old = root / f"kernels-{number}"
        (old / "warp").mkdir(parents=True)
        age(old, caches.UNUSED_S + 60.0 * (1 + number))
    in_use, foreign = root / "kernels-in-use", root / "my photographs"
    for path in (in_use, foreign):
        path.mkdir()
    age(foreign, 100 * caches.UNUSED_S)
    assert caches.folder() == mine
    left = {path.name for path in root.iterdir()}
    youngest = {f"kernels-{number}" for number in range(caches.KEPT - 2)}
    assert left == {mine.name, in_use.name, foreign.name} | youngest


def test_processes_that_start_at_once_find_the_same_folder(root):
    root.mkdir()
    for number in range(20):
        (root / f"kernels-{number}").mkdir()
        age(root / f"kernels-{number}", 2 * caches.UNUSED_S)
    code = "from harness.run import caches; print(caches.folder())"
    started = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    outputs = [process.communicate()[0].strip() for process in started]
    assert [process.returncode for process in started] == [0] * 4
    assert set(outputs) == {str(caches.folder())}
    assert len(list(root.iterdir())) == caches.KEPT


def test_what_another_process_removes_meanwhile_counts_for_nothing(root):
    """One of two processes has listed a cache that the other then renames: neither may keep fewer for that."""
    for number in range(2 * caches.KEPT):
        (root / f"kernels-{number}").mkdir(parents=True)
        age(root / f"kernels-{number}", caches.UNUSED_S + 60.0 * (1 + number))
    listed = [*root.iterdir(), root / "kernels-gone"]
    assert len(caches._longest_unused(listed)) == caches.KEPT
    (root / "removed-half").mkdir()
    caches.folder()
    assert len(list(root.iterdir())) == caches.KEPT


def test_a_check_has_warm_caches_and_a_timing_cold_ones(root, bench, check):
    """The fake makes the folders and fails where they are."""
    assert [check("wants_a_cold_cache", number=number).outcome for number in range(2)] == ["ok", "error"]
    assert [bench("wants_a_cold_cache", number=number).outcome for number in range(2)] == ["ok", "ok"]


def test_a_folder_that_is_no_utf_8_is_left_to_those_who_can_use_it(monkeypatch, tmp_path):
    root = tmp_path / os.fsdecode(b"odd\xff")
    monkeypatch.setenv(caches.OVERRIDE, str(root))
    assert str(caches.folder()).isascii()
    assert not any(root.iterdir())
