"""Other people's words in every format that has a syntax of its own: read as they are, obeyed nowhere."""

from __future__ import annotations

import io
import json
import re
import xml.etree.ElementTree as ET
from pathlib import PurePosixPath

import msgspec
import pandas as pd
import pytest
from made_up import make_record
from rich.console import Console
from selection import thorough

from harness import terminal
from harness.console import say
from harness.contract.encoding import printable
from harness.report import compare, documents, figures, page, text
from harness.report.data import cases, frame, main_settings

SCRIPT = "<!-- <script>alert(1)</script>"
MARKUP = "a|b `c` *d* __e__ [f](http://g) <b>h</b> ~~i~~ $j$ &amp; k\\"
CONTROL = "\x1b[31mred\x1b[0m\x07\x9b2J\u202ebidi\x00\r\nnext"


def foreign(words, outcome="error"):
    """Records whose every free text holds these words."""
    found = [make_record("a"), make_record("a", options={words: 2.0}), make_record("b", outcome=outcome, reason=words)]
    for record in found:
        record.environment |= {"processor": f"CPU {words}", "os": words, "python": words, "packages": {words: words}}
        assert record.description is not None
        described = {name: f"{name} {words}" for name in ("title", "neighbours", "adjoint", "pair_slots", "fast_math")}
        record.description = msgspec.structs.replace(record.description, **described, options={words: 1.5})
    return found


def report(records):
    return documents.report(frame(records), cases(records))


def literal(markdown):
    """What markdown shows, as far as these tests use it: a backslash takes what follows it for a character."""
    return re.sub(r"\\(?=[!-/:-@\[-`{-~])", "", markdown)


@pytest.mark.parametrize("words", [SCRIPT, MARKUP, "$5 or $6", "# x", "<img src=x onerror=alert(1)>"])
def test_markdown_shows_the_words_and_leaves_none_active(words):
    shown = text.markdown(words)
    assert literal(shown) == words
    assert not re.search(r"(?<!\\)(?:\\\\)*[`|\[\]$]", shown)
    assert not re.search(r"(?<!\\)<[\w/!]", shown)


def test_a_table_has_as_many_cells_as_headings_whatever_the_words():
    records = foreign(MARKUP)
    for table in re.findall(r"(?:^\|.*\n)+", report(records), re.M):
        counts = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(counts) == 1


@pytest.mark.parametrize("words", [SCRIPT, MARKUP, CONTROL])
def test_no_document_holds_a_tag_or_a_control_character_of_others(words):
    records = foreign(words)
    told = compare.markdown(compare.compare(records, foreign(words, "timeout")))
    for document in (
        report(records),
        *documents.readme_blocks(cases(records), PurePosixPath("reports")).values(),
        told,
    ):
        assert not re.search(r"(?<!\\)<(?:script|!--|b>)", document)
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", document)


def test_names_in_code_keep_their_backticks():
    assert text.code("a`b|c") == "`` a`b\\|c ``"


def content_of(html):
    """The page's data, read as a browser does: up to the first end tag, unless a comment hides it."""
    start = html.index(">", html.index('id="content"')) + 1
    held = html[start : html.index("</script", start)]
    assert "<" not in held
    return json.loads(held)


def test_a_reason_does_not_end_the_pages_data():
    records = foreign(SCRIPT)
    html = page.page(frame(records), cases(records))
    content = content_of(html)
    reason = [title["title"] for title in content["columns"]].index("reason")
    assert [row[reason] for row in content["rows"]] == [None, None, SCRIPT]
    assert "<li>CPU &lt;!-- &lt;script&gt;" in html
    assert SCRIPT not in html


def test_plotly_is_given_no_tag_and_no_entity_it_does_not_know():
    records = foreign("<b>\"x\"</b> & 'y'")
    figure = content_of(page.page(frame(records), cases(records)))["figures"]["time"]
    names = [trace["name"] for trace in figure["data"]]
    assert any("&lt;b&gt;\"x\"&lt;/b&gt; &amp; 'y'" in name for name in names)
    assert "<b>" not in figure["layout"]["title"]["text"]


@pytest.mark.parametrize("words", thorough(["$5 or $6", r"$\frac{1}{0$ \$", CONTROL, "<b>&"], few=[CONTROL]))
def test_a_figure_draws_the_words(words, tmp_path):
    records = foreign(words)
    found = cases(records)
    made = figures.figure("time", main_settings(found)[0], found)
    figures.save(made, tmp_path / "a.svg")
    drawn = "".join(ET.parse(tmp_path / "a.svg").getroot().itertext())
    assert printable(f"title {words}").split("\\n")[0] in drawn


def test_a_title_that_begins_with_an_underscore_is_in_the_legend():
    record = make_record("a")
    assert record.description is not None
    record.description = msgspec.structs.replace(record.description, title="_hidden")
    found = cases([record])
    made = figures.figure("time", main_settings(found)[0], found)
    labels = [words.get_text() for words in made.legends[0].get_texts()]
    assert any("_hidden" in label for label in labels)


@pytest.mark.parametrize("words", [CONTROL, "[red]x[/] [bold", "\\["])
def test_a_terminal_is_shown_the_words(words):
    console = Console(file=io.StringIO(), width=200, force_terminal=True, color_system=None)
    records = foreign(words)
    for part in (terminal.timing_tables(records), terminal.agreement_table(foreign(words, "unavailable"))):
        console.print(part)
    console.print(terminal.comparison_table(compare.compare(records, foreign(words, "timeout"))))
    say(console, words)
    printed = console.file.getvalue()
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", printed)
    assert printable(words).split("\\n")[0].split("\\r")[0] in printed


def test_rows_of_one_title_are_told_apart():
    rows = [make_record(name, 100_000, scenario=s) for name in ("a", "b") for s in ("published", "clustered")]
    for record in rows:
        record.description = make_record("same").description
    from harness.report import findings

    found = cases(rows)
    scope = findings.scopes(found, main_settings(found))["cpu"]
    assert findings.clustered(scope).count("Title of same") == 2


def test_machines_that_differ_in_punctuation_have_figures_and_data_of_their_own():
    alike = [make_record(processor=name) for name in ("CPU-1", "CPU 1", "cpu 1")]
    names = {documents.computer_name(setting) for setting in main_settings(cases(alike))}
    assert len(names) == 3
    assert pd.Series(sorted(names)).str.startswith("cpu-1-2-cores-").all()
