"""A cache of closures on disk. The name of a file is a hash of the input, and the file contains a checksum."""

from __future__ import annotations

import hashlib
import os
import tempfile
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl

from cep.core import checksum
from cep.core.user_cache import asked_cache, own_cache
from cep.knowledge.rdf.prefixed_names import PrefixedNames
from cep.knowledge.rdf.relation import BinaryRelation, PredicateRelations
from cep.knowledge.rdf.terms import BLANK, Terms
from cep.knowledge.rdf.triples import TripleSet
from cep.knowledge.reasoning.closure import Closure, compute_closure
from cep.knowledge.reasoning.ruleset import Reasoning, ruleset

MOST = 2**30
"""The maximum size of the cache in bytes.

If the files exceed this size, the least recently used files are deleted. A closure that exceeds it is not cached.
"""

LEAST = 20_000
"""The minimum number of triples for which a closure is cached. It takes about a tenth of a second to compute the
closure of fewer triples."""

_READ_TOO = (
    "rdf/canonical.py",
    "rdf/namespaces.py",
    "rdf/prefixed_names.py",
    "rdf/relation.py",
    "rdf/terms.py",
    "rdf/triples.py",
    "rdf/values.py",
)
_ABANDONED = 3600  # an incomplete file is abandoned if it is this many seconds older than the newest


def folder() -> Path:
    """Return the folder of the cache: SEMCEP_CACHE_DIR if it is set, otherwise `semcep` in the user's cache directory.

    If the path is not a folder (such as /dev/null), nothing is cached.
    """
    return asked_cache() or own_cache()


def close_once(
    terms: Terms, triples: TripleSet, reasoning: Reasoning, prefixes: Mapping[str, str] | None = None
) -> Closure:
    """Return the result of `compute_closure`, from the cache if the closure of these triples was computed before.

    An unreadable file in the cache is replaced. If the folder cannot be written, nothing is cached. Closures of fewer
    than LEAST triples are never cached. Raises CepError if the triples are inconsistent.
    """
    if reasoning == "none" or len(triples) < LEAST:
        return compute_closure(terms, triples, reasoning, prefixes)
    try:
        path = folder() / f"{key(terms, triples, reasoning)}.npz"
    except (OSError, RuntimeError):  # the code is not in files, or there is no home directory
        return compute_closure(terms, triples, reasoning, prefixes)
    closure = _read(path, terms, triples, reasoning, prefixes or {})
    if closure is not None:
        return closure
    closed = compute_closure(terms, triples, reasoning, prefixes)
    with suppress(OSError):
        _write(path, closed)
    return closed


def key(terms: Terms, triples: TripleSet, reasoning: Reasoning) -> str:
    """Return a hash of the triples, their terms, the kind of reasoning, and the code of this package.

    The hash does not depend on the labels of blank nodes.
    """
    digest = hashlib.blake2b(_code(), digest_size=20)
    digest.update(f"{reasoning} {len(terms)} {terms.sorts}".encode())
    ids = np.arange(len(terms), dtype=np.int64)
    digest.update(terms.sort_of(ids).tobytes())
    texts = pl.select(pl.when(pl.Series(terms.kinds(ids) != BLANK)).then(terms.texts(ids)).otherwise(pl.lit("")))
    column = texts.to_series().rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
    for buffer in column.buffers()[1:]:
        digest.update(buffer if buffer is not None else b"")
    for ids in triples.columns:
        digest.update(ids.tobytes())
    return digest.hexdigest()


@cache
def _code() -> bytes:
    here = Path(__file__).parent
    digest = hashlib.blake2b(f"{pl.__version__} {np.__version__}".encode())
    for file in (*sorted(here.glob("*.py")), *(here.parent / name for name in _READ_TOO)):
        digest.update(file.read_bytes())
    return digest.digest()


def _read(
    path: Path, terms: Terms, triples: TripleSet, reasoning: Reasoning, prefixes: Mapping[str, str]
) -> Closure | None:
    try:
        with path.open("rb") as file:
            if file.read(checksum.HEAD) != checksum.seal_header(file, path.stem.encode()):
                return None
            file.seek(checksum.HEAD)
            with np.load(file, allow_pickle=False) as stored:
                predicates, stops, pairs, rounds = (stored[name] for name in ("predicates", "stops", "pairs", "rounds"))
                labels, last = stored["labels"], int(stored["last"])
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    with suppress(OSError):  # the folder may be read-only
        os.utime(path)
    asserted = PredicateRelations.of(*triples.columns)
    rules = ruleset(reasoning, terms, asserted, PrefixedNames(terms, prefixes, asserted))
    starts = [0, *stops.tolist()]
    facts = PredicateRelations(
        {
            predicate: BinaryRelation(pairs[start:stop], rounds[start:stop])
            for predicate, start, stop in zip(predicates.tolist(), starts, starts[1:])
        }
    )
    return Closure(terms, reasoning, asserted, rules, facts, labels, last, prefixes, cached=True)


def _write(path: Path, closed: Closure) -> None:
    """Write a closure to a file, which is replaced in one step, so that it is never read incomplete.

    Raises OSError if the file cannot be written.
    """
    relations = [closed.facts[predicate] for predicate in closed.facts]
    arrays = {
        "predicates": closed.facts.predicates,
        "stops": np.cumsum([len(relation) for relation in relations]),
        "pairs": np.concatenate([relation.pairs for relation in relations]),
        "rounds": np.concatenate([relation.rounds for relation in relations]),
        "labels": closed.labels,
        "last": np.array(closed.round),
    }
    if sum(array.nbytes for array in arrays.values()) > MOST:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=".part")
    try:
        with os.fdopen(handle, "w+b") as file:
            file.write(bytes(checksum.HEAD))
            np.savez(file, **arrays)  # type: ignore[arg-type]
            file.seek(checksum.HEAD)
            head = checksum.seal_header(file, path.stem.encode())
            file.seek(0)
            file.write(head)
        os.replace(name, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)
        raise
    _prune(path)


def _prune(kept: Path) -> None:
    """Delete old incomplete files. Then delete the least recently used files until at most MOST bytes remain.

    `kept`: a file that is never deleted. Other processes may delete files at the same time.
    """
    newest, total = kept.stat().st_mtime, kept.stat().st_size
    files: list[tuple[float, str, int, Path]] = []
    for file in kept.parent.iterdir():
        with suppress(FileNotFoundError):
            status = file.stat()
            if file.suffix == ".npz" and file != kept:
                files.append((status.st_mtime, file.name, status.st_size, file))
            elif file.suffix == ".part" and status.st_mtime < newest - _ABANDONED:
                file.unlink()
    for _, _, size, file in sorted(files, reverse=True):
        total += size
        if total > MOST:
            file.unlink(missing_ok=True)
