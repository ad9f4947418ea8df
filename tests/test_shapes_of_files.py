"""Small files in the shapes in which records come: `cep infer` declares each, and `cep run` reads it by that."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cep.language.syntax.ast import EventDeclaration
from cep.language.syntax.parser import parse
from tests.cli_runs import cep

FOLDER = Path(__file__).parent / "files"
FILES = sorted(path for path in FOLDER.iterdir() if path.suffix != ".expected")


def events(path: Path, folder: Path) -> str:
    """What comes of a file by what `cep infer` prints of it: a line for each event, then what the run says."""
    result = cep("infer", str(path))
    assert result.exit_code == 0, result.stderr
    declarations = [each for each in parse(result.stdout).statements if isinstance(each, EventDeclaration)]
    rules = ""
    for one in declarations:
        names = [each.name for each in one.attributes]
        heads = ", ".join(f"{name}: V{place}" for place, name in enumerate(names))
        rules += f"all_{one.name}({heads}) <- {one.name}({heads}).\n" if names else f"all_{one.name} <- {one.name}.\n"
    (folder / "p.cep").write_text(f"{result.stdout}\n{rules}")
    bound = f"{declarations[0].name}=" if len(declarations) == 1 else ""
    ran = cep("run", str(folder / "p.cep"), "--input", f"{bound}{path}")
    said = re.sub(r", \d+\.\d s$", "", ran.stderr.replace(f"{path.parent}/", ""), flags=re.M)
    return ran.stdout + said


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_file_is_read_by_what_is_inferred_of_it(path: Path, tmp_path: Path) -> None:
    assert events(path, tmp_path) == path.with_name(f"{path.name}.expected").read_text()
