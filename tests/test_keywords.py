"""Options as keyword arguments: what type checkers know of them is what the options are.

mypy reads this module, and complains of a `type: ignore` where there is nothing to ignore: so each of them shows that a
misspelled keyword, or one of another type, is found before the program runs.
"""

from __future__ import annotations

from dataclasses import fields
from typing import get_type_hints

import pytest

import cep
from cep import compile as compiling
from cep.compile import CompileKeywords, CompileOptions, DataProgramKeywords, ProgramKeywords
from cep.engine import Engine, holds
from cep.runtime.options import EngineKeywords, EngineOptions
from cep.runtime.prior_state import PriorState

TEXT = "event b(x: int).\na(X) <- b(X).\n"


@pytest.mark.parametrize(("options", "keywords"), [(CompileOptions, CompileKeywords), (EngineOptions, EngineKeywords)])
def test_each_option_is_a_keyword_of_its_type(options: type[object], keywords: type[object]) -> None:
    names = {"PriorState": PriorState}  # which its module imports for types alone
    assert get_type_hints(keywords, localns=names) == get_type_hints(options, localns=names)


def test_an_engine_of_a_text_takes_all_of_them() -> None:
    both = {each.name for options in (CompileOptions, EngineOptions) for each in fields(options)}
    assert ProgramKeywords.__annotations__.keys() == both
    assert DataProgramKeywords.__annotations__.keys() == both - {"facts", "lateness", "revise"}


def test_a_misspelled_option_is_refused() -> None:
    with pytest.raises(TypeError, match="polcy"):
        Engine.from_text(TEXT, polcy="recent")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="latness"):
        Engine(compiling.compile(TEXT), latness=5)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="alrts"):
        compiling.compile(TEXT, alrts=True)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="dialct"):
        holds(TEXT, [], dialct="rtec")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="explane"):
        cep.Engine.from_text(TEXT, explane=True)  # type: ignore[call-arg]


def test_an_option_of_another_type_is_found_by_mypy() -> None:
    with pytest.raises(TypeError):
        Engine.from_text(TEXT, lateness="5 s")  # type: ignore[arg-type]
    assert cep.Engine.from_text(TEXT, lateness="5 s", facts=None).inputs.keys() == {"b"}
