"""One program in several files: their texts as one, in which each line still says which file it is of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cep.core.errors import Files, Source


def joined(texts: Iterable[tuple[str, str]]) -> tuple[str, str, Files]:
    """The text of several files (name, text), the name to quote it by, and where each of them begins; of one file
    nothing but itself."""
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
    """Each file with a source in which it stands alone, on the lines that are its own."""
    lines = source.text.splitlines(keepends=True)
    ends = [first - 1 for _, first in source.files[1:]] + [len(lines)]
    for (name, first), end in zip(source.files, ends, strict=True):
        own = "".join(lines[first - 1 : end])
        yield name, Source("\n" * (first - 1) + own, source.name, source.files)


def blended(sources: Iterable[Source]) -> Source:
    """Put the lines of several sources together, each on its own lines."""
    given = list(sources)
    lines: list[str] = []
    for each in given:
        own = each.text.splitlines(keepends=True)
        lines += own[len(lines) :]
    return Source("".join(lines), given[0].name, given[0].files)
