"""The GeoNames dump and its companion files, read as tables."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from cep.core.errors import CepError
from cep.core.unpacking import UnpackedTooLarge, check_unpacked
from cep.knowledge.gazetteers import tab_separated
from cep.knowledge.gazetteers.tab_separated import DTYPES, Field

FEATURES = (
    Field("id", "int", "geonameid", needed=True, low=1, distinct=True),
    Field("name", needed=True),
    Field("ascii"),
    Field("alternates"),
    Field("lat", "float", "latitude", needed=True, low=-90, high=90),
    Field("long", "float", "longitude", needed=True, low=-180, high=180),
    Field("class", title="feature class", among=tuple("AHLPRSTUV")),
    Field("code"),
    Field("country"),
    Field("cc2"),
    Field("admin1"),
    Field("admin2"),
    Field("admin3"),
    Field("admin4"),
    Field("population", "int"),
    Field("elevation", "int"),
    Field("dem", "int"),
    Field("timezone"),
    Field("modified", title="modification date", needed=True),
)
"""The 19 columns of a dump, in the order of its readme. Elevations are in metres; `dem` comes from a terrain model."""

_REGIONS = (Field("key", needed=True), Field("name", needed=True), Field("ascii"), Field("id", "int", needed=True))
_COUNTRIES = (
    Field("country", needed=True),
    *(Field(name) for name in ("iso3", "number", "fips")),
    Field("name", needed=True),
    *(Field(name) for name in ("capital", "area")),
    Field("population", "int"),
    *(Field(name) for name in ("continent", "tld", "currency", "currency name", "phone", "postal", "postal regex")),
    Field("languages"),
    Field("id", "int", "geonameid"),  # former countries have none in some dumps
    *(Field(name) for name in ("neighbours", "fips of the same")),
)
_HIERARCHY = (Field("parent", "int", needed=True), Field("child", "int", needed=True), Field("type"))
_CODES = (Field("code", needed=True), Field("name"), Field("comment"))

COMPANIONS = ("admin1CodesASCII", "admin2Codes", "countryInfo", "hierarchy", "featureCodes_en", "readme")
"""The names of a dump's companion files, without suffix. A file that has one of these names is not a dump itself.

Most of them are read together with a dump.
"""


@dataclass(frozen=True, slots=True)
class Dump:
    """The places of a dump, one row each (columns: FEATURES), and the tables of its companion files.

    If a companion file does not exist, its table is empty.

    - `regions`: columns key (`US.NJ` or `US.NJ.013`), name and id.
    - `countries`: columns country, name, population and id.
    - `hierarchy`: columns parent and child, which are geonameids.
    - `codes`: columns code (`S.AIRP`), name and comment.
    """

    features: pl.DataFrame
    regions: pl.DataFrame
    countries: pl.DataFrame
    hierarchy: pl.DataFrame
    codes: pl.DataFrame


def read_dump(path: Path) -> Dump:
    """Read a dump (`.txt`, or a `.zip` that contains one) and the companion files in the same folder.

    The companion files are `admin1CodesASCII.txt`, `admin2Codes.txt`, `countryInfo.txt`, `featureCodes_en.txt`, and
    `hierarchy.txt` or `.zip`. Raises CepError at the first invalid line, with file, line and reason.
    """
    regions = [_companion(path, name, _REGIONS) for name in ("admin1CodesASCII", "admin2Codes")]
    hierarchy = _companion(path, "hierarchy", _HIERARCHY)
    codes = _companion(path, "featureCodes_en", _CODES)
    return Dump(
        tab_separated.read_rows(_content(path), path, FEATURES),
        pl.concat(regions).select("key", "name", "id"),
        _companion(path, "countryInfo", _COUNTRIES, comment="#")
        .select("country", "name", "population", "id")
        .filter(pl.col("id") > 0),
        hierarchy.select("parent", "child").unique(maintain_order=True),
        codes.filter(pl.col("code") != "null"),  # its last line is for features without a code
    )


def is_dump(path: Path) -> bool:
    """Return True if a file has the name of a dump. Return False for the names of companion files."""
    return path.suffix.lower() in (".txt", ".zip") and path.stem not in COMPANIONS


def _companion(path: Path, name: str, fields: tuple[Field, ...], comment: str | None = None) -> pl.DataFrame:
    for suffix in (".txt", ".zip"):
        file = path.with_name(name + suffix)
        if file.exists():
            return tab_separated.read_rows(_content(file), file, fields, comment)
    return pl.DataFrame(schema={field.name: DTYPES[field.type] for field in fields})


def _content(path: Path) -> bytes:
    try:
        if path.suffix.lower() != ".zip":
            return path.read_bytes()
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.lower().endswith(".txt") and name != "readme.txt"]
            if len(names) != 1:
                content = ", ".join(archive.namelist()) or "nothing"
                raise CepError(
                    f"{path}: the archive should contain one `.txt` file, but it contains {content}", code="places"
                )
            member = archive.getinfo(names[0])
            check_unpacked(member.file_size, member.compress_size)
            return archive.read(member)
    except UnpackedTooLarge as error:
        raise CepError(f"{path} cannot be read: {error}", code="places") from None
    except zipfile.BadZipFile:
        raise CepError(f"{path}: this is not a complete zip file", code="places") from None
