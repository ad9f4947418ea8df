"""A build step that downloads the libraries for maps and charts, and the outlines of countries and states.

`python -m cep.connectors.serving.vendor` uses npm if it is installed. Otherwise it downloads from npm's registry
itself. In both cases, it verifies the checksums of the packages. It does not download existing files again.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

VENDOR = Path(__file__).with_name("page") / "vendor"
REGISTRY = "https://registry.npmjs.org/"
_SECONDS = 60.0


class Unfetched(Exception):
    """Raised if a package is not available, or has the wrong checksum."""


@dataclass(frozen=True, slots=True)
class Package:
    """A package of npm.

    `files`: the paths of the files to use in the package, and for each file the name under which the page stores it.
    `sha512`: the hash of the package's archive, in base64.
    """

    name: str
    version: str
    sha512: str
    files: Mapping[str, str]

    @property
    def archive(self) -> str:
        return f"{self.name}-{self.version}.tgz"


PACKAGES = (
    Package(
        "leaflet",  # BSD-2-Clause
        "1.9.4",
        "nxS1ynzJOmOlHp+iL3FyWqK89GtNL8U8rvlMOsQdTTssxZwCXh8N2NB3GDQOL+YR3XnWyZAxwQixURb+FA74PA==",
        {"dist/leaflet.js": "leaflet.js", "dist/leaflet.css": "leaflet.css", "LICENSE": "leaflet.LICENSE"},
    ),
    Package(
        "uplot",  # MIT
        "1.6.32",
        "KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw==",
        {"dist/uPlot.iife.min.js": "uplot.js", "dist/uPlot.min.css": "uplot.css", "LICENSE": "uplot.LICENSE"},
    ),
    Package(
        "topojson-client",  # ISC
        "3.1.0",
        "605uxS6bcYxGXw9qi62XyrV6Q3xwbndjachmNxu8HWTtVPxZfEJN9fd/SZS1Q54Sn2y0TMyMxFj/cJINqGHrKw==",
        {"dist/topojson-client.min.js": "topojson-client.js", "LICENSE": "topojson-client.LICENSE"},
    ),
    Package(
        "world-atlas",  # ISC; the outlines are Natural Earth's, in the public domain
        "2.0.2",
        "IXfV0qwlKXpckz1FhwXVwKRjiIhOnWttOskm5CtxMsjgE/MXAYRHWJqgXOpM8IkcPBoXnyTU5lFHcYa5ChG0LQ==",
        {"countries-50m.json": "countries.json", "LICENSE": "world-atlas.LICENSE"},
    ),
    Package(
        "us-atlas",  # ISC; the outlines are the US Census Bureau's, in the public domain
        "3.0.1",
        "wEIZCq0ImPvGblTd8gZMqNNCPkQshugMUG/8nkSWXb02+XqNFREg9atHOKP9w6prLZTpqcLhSvdBW81MkV3/0Q==",
        {"states-10m.json": "states.json", "LICENSE": "us-atlas.LICENSE"},
    ),
)


def fetch(folder: Path = VENDOR, packages: Sequence[Package] | None = None) -> int:
    """Download the missing packages and return their number. `packages`: the packages to look for. None stands for all
    packages that the page needs.

    Raises Unfetched if a package cannot be downloaded or has the wrong hash.
    """
    count = 0
    for package in PACKAGES if packages is None else packages:
        stamp = folder / f"{package.name}.sha512"
        whole = all((folder / name).is_file() for name in package.files.values())
        if whole and stamp.is_file() and stamp.read_text() == package.sha512:
            continue
        taken = _taken(package, _archive(package))
        folder.mkdir(parents=True, exist_ok=True)
        stamp.unlink(missing_ok=True)
        for name, content in taken.items():
            (folder / name).write_bytes(content)
        stamp.write_text(package.sha512)
        count += 1
    return count


def _taken(package: Package, archive: bytes) -> dict[str, bytes]:
    digest = base64.b64encode(hashlib.sha512(archive).digest()).decode()
    if digest != package.sha512:
        raise Unfetched(f"{package.archive} is not what it was: its sha512 is {digest}")
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        members = {name: tar.extractfile(f"package/{path}") for path, name in package.files.items()}
        return {name: member.read() for name, member in members.items() if member is not None}


def _archive(package: Package) -> bytes:
    npm = shutil.which("npm")
    return _download(package) if npm is None else _packed(npm, package)


def _packed(npm: str, package: Package) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        command = [npm, "pack", "--silent", "--ignore-scripts", f"{package.name}@{package.version}"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        file = Path(folder) / package.archive
        if done.returncode or not file.is_file():
            reason = next((line for line in done.stderr.splitlines() if "error" in line.lower()), "it says nothing")
            raise Unfetched(f"npm does not give {package.name} {package.version}: {reason}")
        return file.read_bytes()


def _download(package: Package) -> bytes:
    registry = os.environ.get("NPM_CONFIG_REGISTRY", REGISTRY).rstrip("/")
    address = f"{registry}/{package.name}/-/{package.archive}"
    try:
        with urlopen(address, timeout=_SECONDS) as answer:
            return bytes(answer.read())
    except (URLError, OSError, ValueError) as error:
        raise Unfetched(f"{address} cannot be read: {getattr(error, 'reason', error)}") from None


def main() -> int:
    """Download all packages. Return 0 even if a download fails. Without the packages, the page shows a notice, and
    works without map and charts."""
    try:
        count = fetch()
    except (Unfetched, OSError) as error:
        print(f"the page of `cep serve` will have no map and no charts: {error}", file=sys.stderr)
        print("with a network, `make page` fetches what they need", file=sys.stderr)
        return 0
    if count:
        print(f"fetched the map and the charts of the page: {', '.join(package.name for package in PACKAGES)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
