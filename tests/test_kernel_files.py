"""What is kept of a kernel, by many processes at once."""

from __future__ import annotations

from pathlib import Path

from cep.core.kernel_files import KernelFile


def test_compiled_code_is_never_that_of_another_key(tmp_path: Path) -> None:
    """Also where two processes save at once: each has read the index before the other has written it."""
    first, second = KernelFile(str(tmp_path), "kernel", "stamp"), KernelFile(str(tmp_path), "kernel", "stamp")
    first.index = second.index = dict  # type: ignore[method-assign]
    first.save("ints", "code of ints")
    kept = dict(KernelFile(str(tmp_path), "kernel", "stamp").index())
    second.save("floats", "code of floats")
    for index in (kept, {"ints": kept["ints"], "floats": second._data_name_of("floats")}):
        first._save_index(index)
        reader = KernelFile(str(tmp_path), "kernel", "stamp")
        assert reader.load("ints") in ("code of ints", None) and reader.load("floats") in ("code of floats", None)
    later = KernelFile(str(tmp_path), "kernel", "later")
    assert later.load("floats") is None
    later.save("floats", "later code")
    assert later.load("floats") == "later code" and len(list(tmp_path.glob("*.nbc"))) == 1


def test_damaged_files_are_none(tmp_path: Path) -> None:
    file = KernelFile(str(tmp_path), "kernel", "stamp")
    for suffix in ("nbc", "nbi"):
        file.save("ints", "code")
        (path,) = tmp_path.glob(f"*.{suffix}")
        for damage in (b"", b"\x80\x04garbage", path.read_bytes()[:-3]):
            path.write_bytes(damage)
            assert file.load("ints") is None


def test_code_of_which_a_bit_is_wrong_is_none(tmp_path: Path) -> None:
    file = KernelFile(str(tmp_path), "kernel", "stamp")
    file.save("ints", b"machine code" * 100)
    (path,) = tmp_path.glob("*.nbc")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert file.load("ints") is None
