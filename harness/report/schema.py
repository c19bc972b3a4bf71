"""The record schema as a page, from the code that defines it."""

from __future__ import annotations

import docstring_parser
import msgspec

from harness.contract.records import OUTCOMES, SCHEMA_VERSION, Record, Result, Worst
from harness.report.text import Markdown, code, table

_INTRODUCTION = f"""# The record schema

Generated from `harness/contract/records.py`; do not edit. Schema version {SCHEMA_VERSION}.

`pairgrad bench` writes one JSON document a line, one per planned case and round, into `<results>/<run_id>.jsonl`.
`pairgrad check --json FILE` writes `{{"agree": bool, "problems": [...], "records": [...], "segments": [...]}}` with the
same records. Times are seconds, memory is bytes; what was not measured is null, and no number is ever NaN or infinite.

Outcomes: {", ".join(f"`{outcome}`" for outcome in OUTCOMES)}. A record that is not `ok` has no timings.
"""


def schema_page() -> str:
    """Markdown: every field of a record with its type and meaning."""
    sections: list[tuple[str, type[msgspec.Struct], tuple[str, ...]]] = [
        ("Identity", Record, tuple(name for name in Record.__struct_fields__ if name not in Result.__struct_fields__)),
        ("What the worker found", Result, Result.__struct_fields__),
        ("`worst`", Worst, Worst.__struct_fields__),
    ]
    parts = [f"## {title}\n\n{_fields(struct, names)}" for title, struct, names in sections]
    return "\n\n".join([_INTRODUCTION.rstrip(), *parts]) + "\n"


def _fields(struct: type[msgspec.Struct], names: tuple[str, ...]) -> str:
    meanings = {
        name.strip(): (parameter.description or "").replace("\n", " ")
        for parameter in docstring_parser.parse(struct.__doc__ or "").params
        for name in parameter.arg_name.split(",")
    }
    types = {field.name: field.type for field in msgspec.structs.fields(struct)}
    return table(
        ("field", "type", "meaning"),
        [(code(name), code(_type(types[name])), Markdown(meanings.get(name, ""))) for name in names],
    )


def _type(annotation: object) -> str:
    """A type as a reader of JSON says it."""
    text = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    text = (
        text.replace("typing.", "").replace("harness.contract.records.", "").replace("harness.contract.protocol.", "")
    )
    text = text.replace(" | None", " or null").replace("NoneType", "null")
    return "one of the outcomes" if text.startswith("Literal") else text


if __name__ == "__main__":
    print(schema_page(), end="")
