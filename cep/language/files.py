"""Programs in several files: their texts are concatenated, and each line still belongs to its file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cep.core.errors import Files, Source


def joined(texts: Iterable[tuple[str, str]]) -> tuple[str, str, Files]:
    """Concatenate files, given as (name, text).

    Return the text, a name for messages, and the name and first line of each file. A single file keeps its text and
    name.
    """
    given = list(texts)
    assert given, "a program has a text"
    if len(given) == 1:
        name, text = given[0]
        return text, name, ()
    made: list[str] = []
    files: list[tuple[str, int]] = []
    lines = 0
    for name, text in given:
        files.append((name, lines + 1))
        text = text if not text or text.splitlines(keepends=True)[-1] != text.splitlines()[-1] else f"{text}\n"
        made.append(text or "\n")
        lines += len(made[-1].splitlines())
    return "".join(made), ", ".join(name for name, _ in given), tuple(files)


def apart(source: Source) -> Iterator[tuple[str, Source]]:
    """Yield each file as a source that contains only its text, on its original lines."""
    lines = source.text.splitlines(keepends=True)
    ends = [first - 1 for _, first in source.files[1:]] + [len(lines)]
    for (name, first), end in zip(source.files, ends, strict=True):
        own = "".join(lines[first - 1 : end])
        yield name, Source("\n" * (first - 1) + own, source.name, source.files)


def blended(sources: Iterable[Source]) -> Source:
    """Merge sources that use different lines of the same text."""
    given = list(sources)
    lines: list[str] = []
    for each in given:
        own = each.text.splitlines(keepends=True)
        lines += own[len(lines) :]
    return Source("".join(lines), given[0].name, given[0].files)
