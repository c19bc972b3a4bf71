"""What the docs say follows from the code."""

import re
from pathlib import Path

from harness.report.schema import schema_page

ROOT = Path(__file__).parent.parent


def test_record_schema_page_is_generated_from_the_code() -> None:
    assert (ROOT / "docs" / "record_schema.md").read_text() == schema_page(), "run make docs"


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("reports/*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
