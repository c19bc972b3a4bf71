"""Names made from texts: no two texts share one."""

from __future__ import annotations

import hashlib
import re

_LONGEST = 80
_LOOKS_MADE = re.compile(r"-[0-9a-f]{8}$")


def file_name(text: str) -> str:
    """A file's or folder's name for a text, without a suffix.

    A text of lower-case letters, digits, `_`, `-` and `.` names itself. What is left of any other is followed by a
    digest of the whole of it, so that texts that differ in case or punctuation alone have names of their own.
    """
    kept = re.sub(r"[^a-z0-9_.]+", "-", text.lower()).strip("-.")[:_LONGEST]
    if kept and kept == text and not _LOOKS_MADE.search(text):
        return text
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{kept}-{digest}".lstrip("-")


def number_name(value: float) -> str:
    """A number as short as it can be without standing for another: 2, 1.05, 1.0000001."""
    short = f"{value:g}"
    return short if float(short) == value else repr(float(value))
