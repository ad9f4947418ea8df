"""What a command does not need is not imported: start-up is most of what a short command takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROGRAM = """\
event reading(fridge: string, temp: float) TIME time.
warming(F, A, B) <- reading(F, A) SEQ reading(F, B) WHERE A > 7, B > A WITHIN 15 min.
"""
KNOWLEDGE = {"owlrl", "pyoxigraph", "pyproj", "pyshacl", "rdflib", "shapely"}
COMPILER = {"llvmlite", "numba"}
PARSER = {"pydantic"}
"""Modules that typer imports only to convert the values of options."""
TABLES = {"polars.dataframe", "pyarrow.lib"}
RUNS = """
import sys
sys.argv = ["cep", *sys.argv[1:]]
from cep.command import main
try:
    main()
except SystemExit as ended:
    sys.stdout = sys.stderr if ended.code else sys.stdout
print("modules:", *sys.modules)
"""


def modules(code: str, *words: str) -> set[str]:
    """The modules of a process that ran some code without an error."""
    ran = subprocess.run([sys.executable, "-c", code, *words], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0 and "modules:" in ran.stdout, ran.stderr
    return set(ran.stdout.rpartition("modules:")[2].split())


@pytest.mark.parametrize("command", ["check", "plan"])
def test_a_program_is_checked_without_a_compiler_and_without_tables(command: str, tmp_path: Path) -> None:
    (tmp_path / "rules.cep").write_text(PROGRAM)
    loaded = modules(RUNS, command, str(tmp_path / "rules.cep"))
    assert sorted(loaded & (COMPILER | KNOWLEDGE | PARSER | TABLES)) == []
    unused = (
        "cep.language.dialects.rtec.",
        "cep.language.dialects.lars.lowering",
        "cep.spark.",
        "cep.server.",
        "cep.diff.",
    )
    assert not {each for each in loaded if each.startswith(unused)}
    assert command == "plan" or "cep.engine" not in loaded


def test_help_needs_nothing() -> None:
    assert not modules(RUNS, "--help") & (COMPILER | KNOWLEDGE | PARSER | TABLES | {"numpy", "cep.engine"})


def test_importing_costs_nothing() -> None:
    assert {each for each in modules("import cep, sys; print('modules:', *sys.modules)") if "cep" in each} == {"cep"}


def test_a_run_without_knowledge_loads_none(tmp_path: Path) -> None:
    (tmp_path / "rules.cep").write_text(PROGRAM)
    (tmp_path / "in.csv").write_text("time,fridge,temp\n2024-05-01 08:00,milk,8.1\n")
    words = ["run", str(tmp_path / "rules.cep"), "--input", f"reading={tmp_path / 'in.csv'}"]
    modules(RUNS, *words)  # compiles the kernels
    loaded = modules(RUNS, *words)
    assert sorted(loaded & (KNOWLEDGE | PARSER)) == []
    unused = ("cep.connectors.brokers.messages", "cep.connectors.formats.packs", "cep.connectors.rdf.writer")
    compiling = ("numba.cpython.unicode", "numba.np.arrayobj")
    assert sorted(loaded.intersection(unused + compiling)) == []


def test_options_of_all_types_are_converted(tmp_path: Path) -> None:
    """typer converts numbers, and the command converts paths and texts itself."""
    (tmp_path / "rules.cep").write_text(PROGRAM)
    (tmp_path / "in.csv").write_text("time,fridge,temp\n2024-05-01 08:00,milk,8.1\n2024-05-01 08:05,milk,9.1\n")
    words = ["run", str(tmp_path / "rules.cep"), "--input", f"reading={tmp_path / 'in.csv'}", "--only", "warming"]
    ran = subprocess.run(
        [sys.executable, "-m", "cep", *words, "--batch", "1", "--workers", "1", "--log", "json"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode == 0 and '"milk"' in ran.stdout, ran.stderr
    refused = subprocess.run([sys.executable, "-m", "cep", *words, "--batch", "0"], cwd=ROOT, capture_output=True)
    assert refused.returncode == 2 and b"--batch" in refused.stderr


def test_tables_of_facts_are_read_where_a_program_is_checked(tmp_path: Path) -> None:
    """They are what a check needs polars for, which is imported when they are read."""
    (tmp_path / "rules.cep").write_text("event a(x: string).\nnext(Y) <- a(X) WHERE linked(X, Y).\n")
    (tmp_path / "links.csv").write_text("from,to\nattic,hall\n")
    facts = f"linked={tmp_path / 'links.csv'}"
    assert modules(RUNS, "check", str(tmp_path / "rules.cep"), "--facts", facts) >= {"polars.dataframe"}
