"""Programs that consist of several files. Their texts are joined to one text, and each line keeps the name of its
file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cep.core.errors import Files, Source


def joined(texts: Iterable[tuple[str, str]]) -> tuple[str, str, Files]:
    """Join files to one text. `texts`: the name and the text of each file.

    Return the joined text, a program name for messages, and for each file its name and its first line in the joined
    text. If there is only one file, return its text, its name and an empty list.
    """
    parts = list(texts)
    assert parts, "a program has a text"
    if len(parts) == 1:
        name, text = parts[0]
        return text, name, ()
    pieces: list[str] = []
    files: list[tuple[str, int]] = []
    lines = 0
    for name, text in parts:
        files.append((name, lines + 1))
        text = text if not text or text.splitlines(keepends=True)[-1] != text.splitlines()[-1] else f"{text}\n"
        pieces.append(text or "\n")
        lines += len(pieces[-1].splitlines())
    return "".join(pieces), ", ".join(name for name, _ in parts), tuple(files)


def apart(source: Source) -> Iterator[tuple[str, Source]]:
    """Yield the name of each file, and a source that contains only the lines of this file. The source begins with empty
    lines, so that the lines have the same numbers as in the joined text."""
    lines = source.text.splitlines(keepends=True)
    ends = [first - 1 for _, first in source.files[1:]] + [len(lines)]
    for (name, first), end in zip(source.files, ends, strict=True):
        own = "".join(lines[first - 1 : end])
        yield name, Source("\n" * (first - 1) + own, source.name, source.files)


def blended(sources: Iterable[Source]) -> Source:
    """Merge sources that contain different parts of the same text. Each begins with empty lines up to its part."""
    parts = list(sources)
    lines: list[str] = []
    for part in parts:
        own = part.text.splitlines(keepends=True)
        lines += own[len(lines) :]
    return Source("".join(lines), parts[0].name, parts[0].files)
