"""Texts and values for those who cannot hold them: JSON without surrogates and infinity, a screen without controls."""

from __future__ import annotations

import json
import re
from typing import Any, TypeVar

import msgspec

_Value = TypeVar("_Value")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, those that turn the direction of text, and halves of characters."""


def encode(value: Any) -> bytes:
    r"""JSON for anybody: what is no Unicode in a text is written out, as `\udcff`; NaN and infinity are null."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_written_out(msgspec.to_builtins(value)))


def pack(value: Any) -> bytes:
    """JSON as Python itself reads it, from which `unpack` makes the same value again: every path, every float."""
    return json.dumps(msgspec.to_builtins(value)).encode()


def unpack(packed: bytes, kind: type[_Value]) -> _Value:
    """What `pack` was given."""
    return msgspec.convert(json.loads(packed), kind)


def is_unicode(text: str) -> bool:
    """Whether a text holds nothing that UTF-8 cannot."""
    return _in_unicode(text) == text


def printable(words: str) -> str:
    """Text in which every character that a terminal or a drawing would obey is written out, as in a Python literal."""
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), words)


def _in_unicode(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()


def _written_out(value: Any) -> Any:
    if isinstance(value, str):
        return _in_unicode(value)
    if isinstance(value, list):
        return [_written_out(each) for each in value]
    if isinstance(value, dict):
        return {_written_out(key): _written_out(each) for key, each in value.items()}
    return value
