"""What Prolog and RTEC have and does not run here says what to write instead."""

from __future__ import annotations

import pytest

from cep.language.dialects.rtec.signatures import FOREIGN
from tests.test_rtec import mistakes


@pytest.mark.parametrize("name", sorted(FOREIGN))
def test_what_prolog_and_rtec_have_besides_is_refused_with_what_to_write(name: str) -> None:
    shown = name if name[0].isalpha() else f"'{name}'"
    event = f"start{name[5:]}(b(X)=true)" if name == "startI" else None
    condition = f"happensAt({event}, T)" if event else f"{shown}(X)"
    text = mistakes(f"initiatedAt(a(X)=true, T) :- happensAt(e(X), T),\n    {condition}.")
    assert f"x.prolog:2:{15 if event else 5}: `{name}` does not run here" in text, text
    assert f"hint: {FOREIGN[name]}" in text, text
