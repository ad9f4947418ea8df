"""Every module has its place in the layers of `pyproject.toml`, so that import-linter looks at its imports."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

from cep.engine import Engine
from cep.language.syntax.ast import SyntaxTree
from cep.stateful import StatefulEngine

ROOT = Path(__file__).parents[1]


def layered() -> set[str]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each["id"] == "layers")
    return {name for layer in layers for name in re.split(r"\s*[|:]\s*", layer)}


def children(package: str) -> set[str]:
    folder = ROOT / package.replace(".", "/")
    found = [path for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()]
    return {f"{package}.{path.stem}" for path in found if path.name != "__init__.py"}


def test_every_module_of_cep_and_of_its_language_is_in_a_layer() -> None:
    named = layered()
    inside = {name.rpartition(".")[0] for name in named}
    lost = {name for package in ("cep", "cep.language") for name in children(package)} - named - inside
    assert not lost, "a line among the layers of pyproject.toml"


def test_every_layer_is_a_module_that_there_is() -> None:
    there = {name for package in ("cep", "cep.language") for name in children(package)}
    assert not {name for name in layered() if name.startswith("cep.")} - there


def test_the_page_to_read_first_is_a_page() -> None:
    text = (ROOT / "cep" / "engine.py").read_text()
    assert len(text.splitlines()) <= 250
    assert ast.get_docstring(ast.parse(text))


def test_an_engine_keeps_no_syntax_tree() -> None:
    engine = Engine.from_text("PREFIX e: <https://example.org/>\na(X) <- b(X) WHERE near(X).\nnear(1).\n", alerts=True)
    assert isinstance(engine, StatefulEngine)
    seen: set[int] = set()
    waiting: list[object] = [engine]
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, type):
            continue
        seen.add(id(value))
        assert not isinstance(value, SyntaxTree)
        waiting += list(value) if isinstance(value, list | tuple | set | frozenset) else []
        waiting += list(value.values()) if isinstance(value, dict) else []
        waiting += list(vars(value).values()) if hasattr(value, "__dict__") else []
        slots = [name for each in type(value).__mro__ for name in getattr(each, "__slots__", ())]
        waiting += [getattr(value, name) for name in slots if hasattr(value, name)]
    assert (engine.written.rules, engine.written.predicates) == (2, {"near"})
    assert engine.written.prefixes == (("e", "https://example.org/"),)
