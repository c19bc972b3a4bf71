"""The page in headless Chromium, opened from disk with every request refused: filter, sort, hover, both themes."""

from __future__ import annotations

import random
import shutil

import msgspec
import pytest
from made_up import make_record

from harness.report.data import cases, frame
from harness.report.page import page

LIMIT_BYTES = 6_000_000
CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def many(count):
    """That many records with digits that do not compress, of thirteen rows, a tenth of them failed."""
    rng = random.Random(0)
    found = []
    for k in range(count):
        row, n = f"row_{k % 13:02d}", 10 ** (3 + k % 4)
        common = {"round": k // 52, "timestamp": f"2026-01-02T03:04:05.{k:06d}+00:00", "run_id": f"run-{k // 52}"}
        if k % 10 == 0:
            record = make_record(
                row, n, outcome="timeout", reason=f"ended after {k} s during <gradient> & more", **common
            )
        else:
            record = make_record(
                row, n, forward=[n * rng.random() * 1e-6] * 5, gradient=[n * rng.random() * 1e-5] * 5, **common
            )
            record = msgspec.structs.replace(
                record, loss=rng.random(), grad_norm=rng.random(), max_rel_diff=rng.random()
            )
        found.append(record)
    return found


@pytest.fixture(scope="module")
def records():
    return many(2000)


@pytest.fixture(scope="module")
def source(records):
    return page(frame(records), cases(records))


def test_two_thousand_records_stay_below_the_limit(source):
    assert len(source.encode()) < LIMIT_BYTES


def test_nothing_in_the_page_is_loaded_from_elsewhere(source):
    head = source[: source.index('id="content"')]
    assert "src=" not in head.split("<body>")[1]
    assert "<link" not in head
    assert "default-src 'none'" in head


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine: the page was not tried in a browser")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: no browser test")
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture
def opened(browser, source, tmp_path, request):
    """The page, ready, in the parameter's colour scheme; it must complain of nothing and ask for nothing."""
    path = tmp_path / "index.html"
    path.write_text(source, encoding="utf-8")
    context = browser.new_context(
        color_scheme=getattr(request, "param", "light"), viewport={"width": 1400, "height": 900}
    )
    tab = context.new_page()
    complaints, requests = [], []
    tab.on("console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None)
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on("request", lambda asked: requests.append(asked.url))
    tab.goto(path.as_uri())
    tab.wait_for_selector("html[data-ready]")
    yield tab
    context.close()
    assert complaints == []
    assert [url for url in requests if not url.startswith(("file:", "blob:"))] == []


def column(tab, title):
    """Texts of a column on the table's current page."""
    titles = tab.eval_on_selector_all("#records thead tr:first-child th", "cells => cells.map(c => c.innerText.trim())")
    return tab.eval_on_selector_all(
        f"#records tbody tr td:nth-child({titles.index(title) + 1})", "cells => cells.map(c => c.innerText)"
    )


def heading(tab, title):
    return tab.locator("#records thead tr").first.locator("th", has_text=title).first


def sort(tab, title, order):
    """Click a heading and wait for the order: the table is drawn anew some time after the click."""
    heading(tab, title).click()
    tab.wait_for_selector(f"#records th[aria-sort={order}]")


@pytest.mark.thorough
def test_the_table_holds_every_record(opened):
    assert "2,000" in opened.locator(".dt-info").inner_text()


@pytest.mark.thorough
def test_sorting_is_numeric_with_missing_values_last(opened):
    sort(opened, "gradient [ms]", "ascending")
    values = [float(text.replace(",", "")) for text in column(opened, "gradient [ms]")]
    assert values == sorted(values)
    sort(opened, "gradient [ms]", "descending")
    assert column(opened, "gradient [ms]")[0] == "–"  # noqa: RUF001


@pytest.mark.thorough
def test_filtering_by_column_and_by_words(opened):
    titles = opened.eval_on_selector_all(
        "#records thead tr:first-child th", "cells => cells.map(c => c.innerText.trim())"
    )
    filters = opened.locator("#records thead tr:nth-child(2) input")
    filters.nth(titles.index("outcome")).fill("timeout")
    opened.wait_for_function("document.querySelector('.dt-info').innerText.includes('200')")
    assert set(column(opened, "outcome")) == {"timeout"}
    filters.nth(titles.index("implementation")).fill("row_05")
    opened.wait_for_function("!document.querySelector('#records tbody').innerText.includes('row_00')")
    assert set(column(opened, "implementation")) == {"row_05"}


SHOWN = (
    "91,105,454",
    "91105454",
    "91.1 M",
    "1.03 s",
    "1,030.12",
    "13.3 GB",
    "13,300",
    "1e6",
    "1,000,000",
    "7,526.066606",
)


@pytest.mark.thorough
def test_a_search_finds_what_is_shown(browser, tmp_path):
    slots = {"pair_slots": 91_105_454, "peak_host_bytes": 13_300_000_000}
    one = make_record("one", 1_000_000, gradient=[1.03012] * 5, **slots)
    other = make_record("other", 1000, grad_norm=1.5, peak_host_bytes=10)
    path = tmp_path / "index.html"
    path.write_text(page(frame([one, other]), cases([one, other])), encoding="utf-8")
    tab = browser.new_page()
    tab.goto(path.as_uri())
    tab.wait_for_selector("html[data-ready]")
    for words in SHOWN:
        tab.locator(".dt-search input").fill(words)
        tab.wait_for_function("document.querySelector('.dt-info').innerText.includes('filtered')")
        assert column(tab, "implementation") == ["one"], words
        tab.locator(".dt-search input").fill("")
        tab.wait_for_function("!document.querySelector('.dt-info').innerText.includes('filtered')")
    tab.close()


@pytest.mark.thorough
def test_a_filter_of_numbers_takes_them_as_shown(opened):
    titles = opened.eval_on_selector_all(
        "#records thead tr:first-child th", "cells => cells.map(c => c.innerText.trim())"
    )
    for title in ("N", "pair slots", "gradient [ms]", "loss"):
        shown = next(words for words in column(opened, title) if words != "\N{EN DASH}")
        field = opened.locator("#records thead tr:nth-child(2) input").nth(titles.index(title))
        field.fill(shown)
        opened.wait_for_function("document.querySelector('.dt-info').innerText.includes('filtered')")
        assert set(column(opened, title)) == {shown}
        field.fill("")
        opened.wait_for_function("!document.querySelector('.dt-info').innerText.includes('filtered')")


@pytest.mark.thorough
def test_failures_are_visible_and_their_reasons_are_text(opened):
    opened.locator(".dt-search input").fill("timeout")
    opened.wait_for_function("document.querySelector('.dt-info').innerText.includes('200')")
    assert opened.locator("#records td.failed").count() == 25
    assert "<gradient> & more" in column(opened, "reason")[0]


@pytest.mark.thorough
def test_hovering_tells_row_n_and_time(opened):
    point = opened.locator("#time .scatterlayer .trace .points path").first
    box = point.bounding_box()
    opened.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    label = opened.locator("#time .hoverlayer .hovertext").first
    label.wait_for()
    assert "Title of row_" in label.text_content()
    assert "N = 1" in label.text_content()


@pytest.mark.thorough
def test_axes_are_logarithmic_and_each_figure_names_machine_and_date(opened):
    for kind in ("time", "particle", "memory", "slots"):
        opened.locator(f"#{kind}").scroll_into_view_if_needed()
        opened.wait_for_selector(f"#{kind} .main-svg")
        told = "({xaxis, yaxis, title}) => [xaxis.type, yaxis.type, title.text]"
        layout = opened.evaluate(f"({told})(document.getElementById('{kind}').layout)")
        assert layout[:2] == ["log", "log"]
        assert "Imagined CPU @ 3 GHz, 2 cores" in layout[2]
        assert "2026-01-02" in layout[2]


@pytest.mark.thorough
def test_failures_are_named_in_the_legend(opened):
    names = opened.evaluate("document.getElementById('time').data.map(trace => trace.name)")
    assert any("timeout at N =" in name for name in names)


def background(tab):
    return tab.evaluate("getComputedStyle(document.body).backgroundColor"), tab.evaluate(
        "getComputedStyle(document.querySelector('#time .main-svg')).backgroundColor"
    )


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("opened", "own"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(17, 17, 17)")], indirect=["opened"]
)
def test_the_theme_follows_the_system_and_the_button_turns_it(opened, own):
    other = {"rgb(255, 255, 255)": "rgb(17, 17, 17)", "rgb(17, 17, 17)": "rgb(255, 255, 255)"}[own]
    assert set(background(opened)) == {own}
    opened.locator("#theme").click()
    opened.wait_for_function(
        f"getComputedStyle(document.querySelector('#time .main-svg')).backgroundColor === '{other}'"
    )
    assert set(background(opened)) == {other}
