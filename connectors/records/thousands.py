"""Numbers that have marks between groups of three digits, such as `1.234,5`. The marks are removed before parsing."""

from __future__ import annotations

import re
from functools import lru_cache


@lru_cache(maxsize=64)
def _grouped(mark: str, point: str) -> re.Pattern[str]:
    group_mark, other = re.escape(mark), re.escape(point)
    return re.compile(rf"[+-]?[0-9]{{1,3}}(?:{group_mark}[0-9]{{3}})+(?:{other}[0-9]*)?", re.ASCII)


def is_grouped(text: str, mark: str, point: str) -> bool:
    """Return True if the text is a number whose groups of three digits `mark` separates. `point`: the decimal mark."""
    return _grouped(mark, point).fullmatch(text) is not None


def plain_number(text: str, mark: str, point: str) -> str:
    """Remove the marks between groups of three digits from a number. Return any other text unchanged."""
    return text.replace(mark, "") if mark in text and is_grouped(text, mark, point) else text
