"""Closures kept on disk: found again by content, made again when anything is wrong."""

from __future__ import annotations

import ast
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from random import Random

import numpy as np
import pytest
from typer.testing import CliRunner

from cep.app.cli_knowledge import knowing
from cep.core.errors import CepError
from cep.knowledge.graph import Knowledge
from cep.knowledge.rdf.terms import Terms
from cep.knowledge.rdf.triples import TripleSet
from cep.knowledge.reasoning import cache, closure
from cep.knowledge.reasoning.cache import close_once, folder, key
from cep.knowledge.reasoning.closure import Closure, compute_closure
from tests.closures import HEADER, closed, loaded, proof_of, read, text_of, triples_of
from tests.damage import flipped

KNOWLEDGE = """
:hosts rdfs:domain :Platform . :Platform owl:disjointWith :Sensor .
:measures owl:propertyChainAxiom (:hosts :observes) .
:ewr :hosts :s1 . :s1 :observes :wind . :newark owl:sameAs :ewr .
"""


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder, empty, in which even the smallest closure is kept."""
    monkeypatch.setenv("SEMCEP_CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.setattr(cache, "LEAST", 0)
    return tmp_path / "kept"


@pytest.fixture
def times_closed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A mark for each time that something is really closed."""
    marks: list[str] = []

    def counted(terms: Terms, triples: TripleSet, reasoning: closure.Reasoning, prefixes: dict[str, str]) -> Closure:
        marks.append(reasoning)
        return closure.compute_closure(terms, triples, reasoning, prefixes)

    monkeypatch.setattr(cache, "compute_closure", counted)
    return marks


def same(one: Closure, other: Closure) -> bool:
    return all((a == b).all() for a, b in zip(one.triples.columns, other.triples.columns))


def test_what_was_closed_is_found_with_its_proofs(kept: Path, times_closed: list[str]) -> None:
    first = close_once(*loaded(read(KNOWLEDGE)), "owlrl")
    again = close_once(*loaded(read(KNOWLEDGE)), "owlrl")
    assert times_closed == ["owlrl"] and len(list(kept.iterdir())) == 1
    assert same(first, again)
    wanted = read(":newark :measures :wind .")[0]
    assert text_of(again, proof_of(again, wanted)) == text_of(first, proof_of(first, wanted))


def test_what_was_found_goes_on_changing(kept: Path) -> None:
    said = read(KNOWLEDGE)  # once: nodes without a label get another each time
    terms, triples = loaded(said)
    close_once(*loaded(said), "owlrl")
    found = close_once(terms, triples, "owlrl")
    more = TripleSet.of(*(np.array([terms.iri(f"http://example.org/{name}")]) for name in ("jfk", "hosts", "s1")))
    whole = closed([*said, *read(":jfk :hosts :s1 .")])
    assert triples_of(found.plus(more)) == triples_of(whole)
    assert same(found.plus(more).minus(more), found)


def test_other_triples_and_other_reasoning_are_others(kept: Path, times_closed: list[str]) -> None:
    close_once(*loaded(read(KNOWLEDGE)), "owlrl")
    close_once(*loaded(read(KNOWLEDGE)), "rdfs")
    close_once(*loaded(read(KNOWLEDGE + ":jfk :hosts :s2 .")), "owlrl")
    assert times_closed == ["owlrl", "rdfs", "owlrl"]


def test_labels_of_blank_nodes_do_not_matter(kept: Path) -> None:
    labelled = [f":A owl:unionOf _:{label} . _:{label} rdf:first :B ; rdf:rest () ." for label in ("x", "list7")]
    assert len({key(*loaded(read(text)), "owlrl") for text in labelled}) == 1
    literal = [read(text.replace(":B", '"B"')) for text in labelled]
    assert key(*loaded(literal[0]), "owlrl") != key(*loaded(read(labelled[0])), "owlrl")


@pytest.mark.parametrize("damage", [b"", b"no archive", None])
def test_a_damaged_file_is_made_again(kept: Path, times_closed: list[str], damage: bytes | None) -> None:
    first = close_once(*loaded(read(KNOWLEDGE)), "owlrl")
    (file,) = kept.iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2] if damage is None else damage)
    assert same(close_once(*loaded(read(KNOWLEDGE)), "owlrl"), first)
    assert same(close_once(*loaded(read(KNOWLEDGE)), "owlrl"), first)
    assert times_closed == ["owlrl", "owlrl"]


def test_a_flipped_bit_is_seen(kept: Path, times_closed: list[str]) -> None:
    close_once(*loaded(read(KNOWLEDGE)), "owlrl")
    (file,) = kept.iterdir()
    whole = file.read_bytes()
    for tries, (_, damaged) in enumerate(flipped(whole, 60, Random(1)), 2):
        file.write_bytes(damaged)
        close_once(*loaded(read(KNOWLEDGE)), "owlrl")
        assert times_closed == tries * ["owlrl"] and file.read_bytes() == whole


def test_a_file_of_other_triples_is_seen(kept: Path, times_closed: list[str]) -> None:
    close_once(*loaded(read(KNOWLEDGE)), "owlrl")
    (file,) = kept.iterdir()
    other = close_once(*loaded(read(KNOWLEDGE + ":jfk :hosts :s2 .")), "owlrl")
    (path,) = set(kept.iterdir()) - {file}
    path.write_bytes(file.read_bytes())
    assert same(close_once(*loaded(read(KNOWLEDGE + ":jfk :hosts :s2 .")), "owlrl"), other)
    assert times_closed == 3 * ["owlrl"]


def test_a_folder_that_cannot_be_made_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("SEMCEP_CACHE_DIR", str(tmp_path / "file" / "kept"))
    monkeypatch.setattr(cache, "LEAST", 0)
    assert close_once(*loaded(read(KNOWLEDGE)), "owlrl").inferred > 0


def test_what_contradicts_and_what_is_small_is_not_kept(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CepError, match="inconsistent"):
        close_once(*loaded(read(KNOWLEDGE + ":ewr a :Sensor .")), "owlrl")
    monkeypatch.setattr(cache, "LEAST", 1000)
    close_once(*loaded(read(KNOWLEDGE)), "owlrl")
    assert not kept.exists()


def test_what_was_not_used_for_longest_goes(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(3):
        close_once(*loaded(read(f"{KNOWLEDGE} :ewr :number {n} .")), "owlrl")
        for file in kept.iterdir():
            os.utime(file, ns=(file.stat().st_atime_ns, file.stat().st_mtime_ns - 1_000_000_000))
    oldest = min(kept.iterdir(), key=lambda file: file.stat().st_mtime_ns)
    (kept / "left.part").write_bytes(b"half")
    os.utime(kept / "left.part", ns=(0, 0))
    (kept / "writing.part").write_bytes(b"half")
    monkeypatch.setattr(cache, "MOST", 3 * oldest.stat().st_size + 100)
    close_once(*loaded(read(f"{KNOWLEDGE} :ewr :number 3 .")), "owlrl")
    assert len(list(kept.glob("*.npz"))) == 3 and not oldest.exists()
    assert [file.name for file in kept.glob("*.part")] == ["writing.part"]
    monkeypatch.setattr(cache, "MOST", 100)  # one alone is more
    close_once(*loaded(read(f"{KNOWLEDGE} :ewr :number 4 .")), "owlrl")
    assert len(list(kept.glob("*.npz"))) == 3


def test_where_they_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SEMCEP_CACHE_DIR", str(tmp_path / "own"))
    assert folder() == tmp_path / "own"
    monkeypatch.delenv("SEMCEP_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert folder() == tmp_path / "semcep"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert folder() == tmp_path / ".cache" / "semcep"


# --- knowledge from the cache ---


def knowledge(tmp_path: Path, more: str = "") -> Knowledge:
    (tmp_path / "stations.ttl").write_text(HEADER + KNOWLEDGE + more, encoding="utf-8")
    return Knowledge.load(tmp_path / "stations.ttl", "owlrl")


def said(known: Knowledge) -> list[str]:
    found = known.query("SELECT ?s ?p ?o { ?s ?p ?o }")
    return sorted(map(str, found.iter_rows()))  # type: ignore[union-attr]


def test_knowledge_from_the_cache_is_that_of_a_fresh_start(kept: Path, tmp_path: Path) -> None:
    first, again = knowledge(tmp_path), knowledge(tmp_path)
    assert [known.closure is not None and known.closure.cached for known in (first, again)] == [False, True]
    assert said(again) == said(first) and again.fingerprint == first.fingerprint
    shipped: Knowledge = pickle.loads(pickle.dumps(again))
    fork = again.fork()
    more, less = f"{HEADER} :jfk :hosts :s1 .", f"{HEADER} :newark owl:sameAs :ewr ."
    for known in (shipped, fork):
        change = known.change(more, less)
        known.apply(change)
        known.apply(known.change(less, more))
        assert said(known) == said(first)
        known.apply(change)
    assert said(again) == said(first), "a fork changes by itself"
    whole = knowledge(tmp_path, ":jfk :hosts :s1 .")
    whole.apply(whole.change(remove=less))
    assert said(shipped) == said(fork) == said(whole) != said(first)
    assert fork.closure is not None and not fork.closure.cached


def test_a_contradiction_with_what_was_kept_is_refused(kept: Path, tmp_path: Path) -> None:
    knowledge(tmp_path)
    again = knowledge(tmp_path)
    with pytest.raises(CepError, match="inconsistent: disjoint classes have a common member"):
        again.apply(again.change(f"{HEADER} :ewr a :Sensor ."))
    with pytest.raises(CepError, match="inconsistent"):
        knowledge(tmp_path, ":ewr a :Sensor .")
    assert len(list(kept.iterdir())) == 1


def test_the_commands_tell_and_explain(kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("stations.ttl").write_text(HEADER + KNOWLEDGE, encoding="utf-8")

    def printed(*arguments: str) -> str:
        result = CliRunner().invoke(knowing, arguments)
        assert result.exit_code == 0, result.output
        return result.stdout

    ask = ("explain", ":newark :measures :wind", "-k", "stations.ttl")
    proof = printed(*ask)
    assert "prp-spo2" in proof and proof == printed(*ask)
    assert "inferred (owlrl, from the cache), " in printed("stats", "stations.ttl").splitlines()[0]
    assert "inferred (rdfs), " in printed("stats", "stations.ttl", "--reasoning", "rdfs").splitlines()[0]


def test_many_that_keep_the_same_at_once(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = close_once(*loaded(read(KNOWLEDGE)), "owlrl")
    (file,) = kept.iterdir()
    whole = file.read_bytes()
    monkeypatch.setattr(cache, "_ABANDONED", -(10**9))  # what another writes may go, too, while it is written
    with ThreadPoolExecutor(4) as threads:
        writing = [threads.submit(close_again) for _ in range(40)]
        while not all(each.done() for each in writing):
            assert file.read_bytes() == whole, "a file is there whole or not at all"
    assert all(same(each.result(), first) for each in writing)
    assert list(kept.iterdir()) == [file] and file.read_bytes() == whole


def close_again() -> Closure:
    """Closed as if nothing were kept, and kept."""
    made = compute_closure(*loaded(read(KNOWLEDGE)), "owlrl")
    with suppress(OSError):
        cache._write(next(cache.folder().glob("*.npz")), made)
    return made


def test_the_name_of_a_file_depends_on_all_code_that_a_closure_depends_on() -> None:
    root = Path(cache.__file__).parents[3]
    waiting, read = ["cep.knowledge.reasoning.closure"], set[str]()
    while waiting:
        name = waiting.pop()
        path = root.joinpath(*name.split(".")).with_suffix(".py")
        if name in read or not path.is_file():
            continue
        read.add(name)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("cep.knowledge"):
                waiting += [str(node.module), *(f"{node.module}.{each.name}" for each in node.names)]
    beyond = {name.replace(".", "/") + ".py" for name in read if not name.startswith("cep.knowledge.reasoning.")}
    assert beyond == {f"cep/knowledge/{name}" for name in cache._READ_TOO}
