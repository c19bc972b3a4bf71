"""Records to tables, figures, findings and a page. A report never measures."""

from harness.report.files import stale, write

__all__ = ["stale", "write"]
