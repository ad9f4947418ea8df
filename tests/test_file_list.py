"""The list of files: added to and never written anew, the same numbers after any end, and cheap to look at again."""

from __future__ import annotations

from pathlib import Path

import pytest

from cep.core.errors import CepError
from cep.engine import Engine
from cep.spark.source import data_source, file_list
from cep.spark.source.file_list import FILE_BITS, FileList, ListedFile
from connectors.inputs import Input
from connectors.inputs import inputs as listed

pytestmark = pytest.mark.xdist_group("spark")

SCHEMAS = Engine.from_text("event a(x: int).\nb(X) <- a(X).").inputs


def looked(one: FileList, *folders: Path) -> int:
    """A look for new files."""
    specs = [(place, str(folder)) for place, folder in enumerate(folders)]
    return one.extend(
        (place, file)
        for place, spec in specs
        for file in data_source.new_files(SCHEMAS, [spec], None, ("no-files",), one.known)
    )


def numbers(one: FileList) -> list[tuple[str, int]]:
    return [(Path(each.path).name, each.number) for each in one.entries(0, len(one))]


def test_files_keep_their_numbers(tmp_path: Path) -> None:
    path, first, second = tmp_path / "files.jsonl", tmp_path / "a", tmp_path / "b"
    for folder in (first, second):
        folder.mkdir()
    one, high = FileList(str(path)), 1 << FILE_BITS
    assert looked(one, first, second) == len(one) == 0
    for folder, name in ((first, "3"), (first, "1 ä"), (second, "2"), (first, "left.txt")):
        (folder / f"{name}.jsonl").touch() if name != "left.txt" else (folder / name).touch()
    wanted = [("1 ä.jsonl", 0), ("2.jsonl", high), ("3.jsonl", 1)]
    assert looked(one, first, second) == looked(one, first, second) == 3 and numbers(one) == wanted
    (first / "0.jsonl").touch()
    before = path.read_bytes()
    assert looked(one, first, second) == 4
    wanted.append(("0.jsonl", 2))
    assert path.read_bytes().startswith(before) and numbers(one) == numbers(FileList(str(path))) == wanted
    assert [Path(each.path).name for each in one.entries(1, 3)] == ["2.jsonl", "3.jsonl"]
    (first / "3.jsonl").unlink()  # moved away: it is not read again if it comes back
    for torn in (b'{"number": 3, "path": "/x', b'{"number": 3}'):
        path.write_bytes(path.read_bytes() + torn)
        again = FileList(str(path))
        assert numbers(again) == wanted and looked(again, first, second) == len(wanted)
        name = f"new-{len(wanted)}.jsonl"
        (second / name).touch()
        assert looked(again, first, second) == len(wanted) + 1
        wanted.append((name, high + len(wanted) - 3))
        assert numbers(again) == numbers(FileList(str(path))) == wanted
    (first / "3.jsonl").touch()
    assert looked(one, first, second) == len(wanted) and numbers(one) == wanted, "another has added to it"
    with pytest.raises(CepError, match="has 6 files, and 9 were read"):
        one.entries(0, 9)


def test_more_files_than_can_be_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_list, "FILE_BITS", 2)
    one = FileList(str(tmp_path / "files.jsonl"))
    some = [(1, Input(f"/in/{number}", "jsonl", None, False)) for number in range(5)]
    assert one.extend(some[:4]) == 4
    with pytest.raises(CepError, match="input 2 has had 4 files, there are no numbers for more"):
        one.extend(some)
    assert len(FileList(str(tmp_path / "files.jsonl"))) == 4
    assert ListedFile.of(one.entries(3, 4)[0].fields()).number == 7


def test_what_is_known_is_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("1.jsonl", "2.jsonl", "note.txt"):
        (folder / name).touch()
    for spec in ("in", "in/", "in/*.jsonl", "./in"):
        both = [Path(one.path).name for one in listed([spec], SCHEMAS)]
        assert both == ["1.jsonl", "2.jsonl"]
        (one,) = listed([spec], SCHEMAS, known={str(folder / "1.jsonl")})
        assert Path(one.path) == Path("in/2.jsonl")
        assert listed([spec], SCHEMAS, known={str(folder / name) for name in both}) == []
    assert listed(["in/1.jsonl"], SCHEMAS, known={str(folder / "1.jsonl")}) == []
    (folder / "1.jsonl").unlink()
    (folder / "2.jsonl").unlink()
    with pytest.raises(CepError, match="no file in this directory"):
        listed(["in"], SCHEMAS, known={str(folder / "1.jsonl")})
