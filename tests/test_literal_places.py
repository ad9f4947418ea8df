"""A number of the knowledge that is none: its file and line are reported."""

from __future__ import annotations

import gzip
from pathlib import Path

from typer.testing import CliRunner

from cep.command import app

TTL = """@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
<http://a> <http://h> "12.5"^^xsd:double .
<http://b> <http://h> "12,5"^^xsd:double .
"""


def warnings_of(*files: Path) -> str:
    words = ["check", *(word for file in files for word in ("--knowledge", str(file)))]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2
    return result.stderr


def test_the_file_and_line_of_a_wrong_number(tmp_path: Path) -> None:
    good, wrong, packed = tmp_path / "good.ttl", tmp_path / "wrong.ttl", tmp_path / "packed.nt.gz"
    good.write_text(TTL.replace("12,5", "13"))
    wrong.write_text(TTL)
    packed.write_bytes(gzip.compress(b'<http://b> <http://h> "x"^^<http://www.w3.org/2001/XMLSchema#int> .\n'))
    assert f'{wrong}:3: <http://b> <http://h> "12,5"^^xsd:double .' in warnings_of(good, wrong)
    assert f"{packed}:1: " in warnings_of(good, packed)


def test_other_contradictions_are_told_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "k.ttl"
    prefix = "@prefix owl: <http://www.w3.org/2002/07/owl#> .\n"
    file.write_text(f"{prefix}<http://a> owl:sameAs <http://b> ; owl:differentFrom <http://b> .\n")
    assert "things that are said to differ are equal" in warnings_of(file) and f"{file}:2" not in warnings_of(file)
