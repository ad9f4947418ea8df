"""What Prolog and RTEC have and does not run here says what to write instead."""

from __future__ import annotations

import pytest

from cep.language.dialects.rtec.signatures import FOREIGN
from cep.language.reading import read
from tests.test_rtec import mistakes


@pytest.mark.parametrize("name", sorted(FOREIGN))
def test_what_prolog_and_rtec_have_besides_is_refused_with_what_to_write(name: str) -> None:
    shown = name if name[0].isalpha() else f"'{name}'"
    event = f"start{name[5:]}(b(X)=true)" if name == "startI" else None
    condition = f"happensAt({event}, T)" if event else f"{shown}(X)"
    text = mistakes(f"initiatedAt(a(X)=true, T) :- happensAt(e(X), T),\n    {condition}.")
    assert f"x.prolog:2:{15 if event else 5}: `{name}` is not supported" in text, text
    assert f"hint: {FOREIGN[name]}" in text, text


@pytest.mark.parametrize(
    "directive", ["['facts.prolog']", "consult('facts.prolog')", "include(facts)", "dynamic(f/1), ensure_loaded(facts)",
                  "use_module('facts.prolog')"]
)  # fmt: skip
def test_directives_that_load_files_are_refused(directive: str) -> None:
    text = mistakes(f"initiatedAt(a(X)=true, T) :- happensAt(e(X), T).\n:- {directive}.\n")
    assert f"x.prolog:2:{25 if 'dynamic' in directive else 4}: a description cannot load another file" in text or (
        "2:18: a description cannot load" in text
    ), text
    assert "hint: put all clauses in one file" in text


def test_directives_that_load_none_are_passed_over() -> None:
    directives = (
        "dynamic f/1, g/2", "discontiguous initiatedAt/2", "multifile(h/1)", "use_module(library(lists))",
        "initialization(main)", "[]",
    )  # fmt: skip
    text = "".join(f":- {each}.\n" for each in directives)
    read(text + "initiatedAt(a(X)=true, T) :- happensAt(e(X), T).\n", "x.prolog")


def test_relations_of_intervals_are_refused() -> None:
    text = mistakes(
        "holdsFor(a(X)=true, I) :- holdsFor(b(X)=true, I1), holdsFor(c(X)=true, I2), during(I1, I2, union, I)."
    )
    assert "x.prolog:1:77: `during` is not supported on intervals" in text
    assert f"hint: {FOREIGN['allen']}" in text
