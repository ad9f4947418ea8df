"""Addresses of files that are not on this machine's disks: `s3://bucket/days/1.jsonl`.

Addresses are taken literally: `%` and `?` are ordinary characters. An address contains no secret, because credentials
and servers come from the environment.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

from cep.core.errors import CepError
from cep.core.suggest import nearest

KINDS = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gs",
    "gcs": "gs",
    "abfs": "abfs",
    "abfss": "abfs",
    "hdfs": "hdfs",
}
"""For each address scheme, the kind of its file system."""

EXAMPLES = {
    "s3": "s3://bucket/folder/file.jsonl",
    "gs": "gs://bucket/folder/file.jsonl",
    "abfs": "abfs://container@account.dfs.core.windows.net/folder/file.jsonl",
    "hdfs": "hdfs://namenode:8020/folder/file.jsonl",
}
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*)://(.*)", re.DOTALL)
_FILE = "file://"
_MAGIC = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class Url:
    """An address, split into its parts.

    `place`: the bucket, the container with its account, or the host. `key`: the path inside the `place`, without a
    leading slash.
    """

    scheme: str
    place: str
    key: str

    @property
    def kind(self) -> str:
        return KINDS[self.scheme]

    @property
    def root(self) -> str:
        """The address without the key."""
        return f"{self.scheme}://{self.place}/"

    @property
    def path(self) -> str:
        """The path that pyarrow's file system uses for this address."""
        if self.kind == "hdfs":
            return f"/{self.key}"
        return f"{self.place.partition('@')[0]}/{self.key}".rstrip("/")

    def at(self, path: str) -> str:
        """Return the address of another path in the same file system. `path`: as pyarrow's file system writes it."""
        return self.root + (path.lstrip("/") if self.kind == "hdfs" else path.partition("/")[2])

    def __str__(self) -> str:
        return self.root + self.key


def is_url(text: str) -> bool:
    """Return True if a text is an address of a file that is not on this machine's disks."""
    matched = _SCHEME.match(text)
    return matched is not None and matched[1].lower() in KINDS


def url(text: str) -> Url:
    """Split an address into its parts. Raises CepError if it does not name a bucket."""
    matched = _SCHEME.fullmatch(text)
    assert matched is not None and matched[1].lower() in KINDS, "this is an address of a file system"
    scheme, rest = matched[1].lower(), matched[2]
    place, _, key = rest.partition("/")
    kind = KINDS[scheme]
    if not place and kind != "hdfs":  # Hadoop's configuration may name the server
        raise CepError(f"{text}: no bucket is named", hint=f"e.g. `{EXAMPLES[kind]}`", code="input")
    if kind == "abfs" and not re.fullmatch(r"[^@]+@[^@.]+(\..+)?", place):
        raise CepError(f"{text}: the account is not named", hint=f"e.g. `{EXAMPLES[kind]}`", code="input")
    if "@" in place and kind != "abfs":
        hint = "secrets are taken from the environment, where no log shows them"
        raise CepError(f"{scheme}://...: an address has no user and password", hint=hint, code="input")
    return Url(scheme, place, re.sub(r"/{2,}", "/", key).lstrip("/"))


def local_path(text: str) -> str:
    """Convert `file:///path` to a path. Any other text is unchanged. Raises CepError if the address names another
    host."""
    if not text.lower().startswith(_FILE):
        return text
    host, _, path = text[len(_FILE) :].partition("/")
    if host not in ("", "localhost"):
        raise CepError(
            f"{text}: `{host}` is another machine", hint=f"a file of this one: `file:///{path}`", code="input"
        )
    return "/" + unquote(path)


def joined(folder: str, name: str) -> str:
    """Return the address of a file in a folder."""
    return f"{folder.rstrip('/')}/{name}"


def is_pattern(text: str) -> bool:
    """Return True if an address contains wildcards."""
    return _MAGIC.search(url(text).key) is not None


def near_scheme(scheme: str, others: tuple[str, ...] = ()) -> str:
    """Return `; did you mean s3://?` if the scheme resembles a known one, otherwise an empty text."""
    word = scheme.lower()
    same = next((kind for kind in KINDS if sorted(kind) == sorted(word)), None)  # `nearest` ignores two letters
    short = {"s4": "s3", "s": "s3", "s3n": "s3", "aws": "s3", "az": "abfs", "azure": "abfs", "wasb": "abfs"}
    near = same or short.get(word) or nearest(word, (*KINDS, *others, "file"))
    return "" if near is None else f"; did you mean `{near}://`?"
