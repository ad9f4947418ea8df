"""Suggestions for misspelt names. A suggestion is the name that the author probably means."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from difflib import SequenceMatcher
from functools import lru_cache
from heapq import nlargest
from pathlib import Path

ALIKE, SURE = 0.65, 0.85
"""Limits of the similarity of two words, which is at most 1. From ALIKE on, one word is suggested for the other. From
SURE on, it is surely what the author means."""
CLOSELY = 20
"""The maximum number of candidates for which the order of the letters is compared. These are the candidates that have
the most letters in common with the word."""
LONGEST = 100
"""The maximum length of a compared word. Comparisons take quadratic time."""


def lower_case(name: str) -> str:
    """Return a name that begins with a lower-case letter, for an author who wrote `Fire` or `FIRE`."""
    return name.lower() if name.isupper() else name[:1].lower() + name[1:]


def nearest(word: str, words: Iterable[str], alike: float = ALIKE) -> str | None:
    """Return the most similar of `words`, ignoring case, or None if none is similar. A single letter is similar only to
    itself."""
    return _nearest(word, tuple(words), alike)


@lru_cache(maxsize=64)  # a thousand records without the same attribute need the same suggestion
def _nearest(word: str, words: tuple[str, ...], alike: float) -> str | None:
    spelt: dict[str, str] = {}
    for candidate in words:
        spelt.setdefault(candidate.casefold(), candidate)
    written = word.casefold()
    if written in spelt or not 2 <= len(word) <= LONGEST:
        return spelt.get(written)
    matcher: SequenceMatcher[str] = SequenceMatcher(None, "", written)
    bounds: list[tuple[float, str]] = []
    for candidate in spelt:
        if len(candidate) <= LONGEST and 2 * min(len(candidate), len(written)) >= alike * (
            len(candidate) + len(written)
        ):
            matcher.set_seq1(candidate)
            bounds.append((matcher.quick_ratio(), candidate))
    ratios: list[tuple[float, str]] = []
    for bound, candidate in nlargest(CLOSELY, bounds):
        if bound >= alike:
            matcher.set_seq1(candidate)
            ratios.append((matcher.ratio(), candidate))
    best = max(ratios, default=(0.0, ""))
    return spelt[best[1]] if best[0] >= alike and ratios else None


def did_you_mean(word: str, words: Iterable[str]) -> str | None:
    """Return a hint that names the most similar of `words`, or None if none is similar."""
    meant = nearest(word, words)
    return meant and f"did you mean `{meant}`?"


def astray(path: Path) -> str | None:
    """Explain why a symbolic link is broken: a link to itself, or a missing target. Returns None for any other path."""
    if not os.path.islink(path):
        return None
    try:
        os.stat(path)
    except OSError as error:
        if error.errno == errno.ELOOP:
            return "the link leads back to itself"
        return f"the link leads to `{os.readlink(path)}`, which is not there"
    return None


def missing(path: Path) -> str | None:
    """Return a hint about a missing file, or None if there is no hint.

    The hint names a similar file in the same folder, or says that the folder does not exist.
    """
    folder = path.parent
    if folder.is_dir():
        near = beside(path)
        return None if near is None else f"did you mean `{near}`?"
    while not folder.parent.is_dir():
        folder = folder.parent
    near = beside(folder)
    return f"there is no folder `{folder}`" + ("" if near is None else f"; did you mean `{near}`?")


def beside(path: Path) -> Path | None:
    """Return the file in a missing file's folder that has the most similar name, or None if no name is similar."""
    names = sorted(file.name for file in path.parent.iterdir()) if path.parent.is_dir() else []
    near = nearest(path.name, (name for name in names if name != path.name))
    return None if near is None else path.with_name(near)
