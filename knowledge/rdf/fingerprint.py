"""A hash of the knowledge that does not depend on the order of its quads."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cep.core.kernels import njit
from cep.core.values import Ints
from cep.knowledge.rdf.terms import NONE, Terms
from cep.knowledge.rdf.triples import TripleSet

Words = NDArray[np.uint64]

_SEEDS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)


def quads_fingerprint(terms: Terms, graphs: Mapping[int, TripleSet], reasoning: str) -> str:
    """Return a hash of quads and of the kind of reasoning: 32 hexadecimal digits.

    `graphs`: the triples of each graph, by the id of the graph. Each quad has a hash of the texts of its terms. The
    result is computed from the sum of these hashes, so the order of the quads does not matter.
    """
    is_used = np.zeros(len(terms), dtype=np.bool_)
    for graph, triples in graphs.items():
        for column in triples.columns:
            is_used[column] = True
        is_used[[graph] if graph != NONE else []] = True
    used = np.flatnonzero(is_used)
    parts = [reasoning]
    for seed in _SEEDS:
        words: Words = np.zeros(len(terms), dtype=np.uint64)
        words[used] = _words(terms, used, np.uint64(seed))
        total = 0
        for graph, triples in graphs.items():
            s, p, o = (words[column] for column in triples.columns)
            name = words[graph] if graph != NONE else np.uint64(1)
            total += int(_mixed(_mixed(_mixed(s, p), o), np.full(len(s), name)).sum(dtype=np.uint64))
        parts.append(f"{total & (2**64 - 1):016x}")
    return hashlib.blake2b("/".join(parts).encode(), digest_size=16).hexdigest()


def _words(terms: Terms, ids: Ints, seed: np.uint64) -> Words:
    """Return a hash of each term. It depends only on the term's kind and text, not on its id."""
    if not len(ids):
        return np.empty(0, dtype=np.uint64)
    texts = terms.texts(ids).to_arrow(compat_level=pl.CompatLevel.oldest())
    _, offsets, characters = texts.buffers()
    ends = np.frombuffer(offsets, dtype=np.int64)[texts.offset : texts.offset + len(ids) + 1]
    bytes = np.frombuffer(characters, dtype=np.uint8) if characters is not None else np.empty(0, dtype=np.uint8)
    hashed: Words = np.empty(len(ids), dtype=np.uint64)
    _hash(bytes, ends, seed, hashed)
    names = [hashlib.blake2b(repr(sort).encode(), digest_size=8).digest() for sort in terms.sorts]
    sorts = np.array([int.from_bytes(name, "little") for name in names], dtype=np.uint64)
    return _mixed(hashed, sorts[terms.sort_of(ids)])


def _mixed(a: Words, b: Words) -> Words:
    with np.errstate(over="ignore"):
        word = (a * np.uint64(0xFF51AFD7ED558CCD)) ^ (b + np.uint64(0x9E3779B97F4A7C15))
        word ^= word >> np.uint64(32)
        word *= np.uint64(0xC4CEB9FE1A85EC53)
        mixed: Words = word ^ (word >> np.uint64(29))
    return mixed


def _hash(characters: Any, ends: Any, seed: Any, out: Any) -> None:
    # Compute a number for each text. `ends` has one element more than there are texts.
    for i in range(out.shape[0]):
        h = seed
        for position in range(ends[i], ends[i + 1]):
            h = (h ^ np.uint64(characters[position])) * np.uint64(0x100000001B3)
            h ^= h >> np.uint64(47)
        out[i] = h


_hash = njit(boundscheck=False)(_hash)
