"""HTTP requests to a running server, with the user's token."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from cep.app.durations import refuse
from cep.core.errors import CepError, reason_of

if TYPE_CHECKING:
    from urllib.request import HTTPRedirectHandler

TokenFile = Annotated[
    Path | None, Option(metavar="FILE", help="File that contains your token. Default: the variable CEP_TOKEN.")
]

_SECONDS = 30.0  # seconds in which a server has to answer
_SERVER = "server:"
LARGEST = 1 << 26
"""The default limit for the size of a server's answer in bytes."""


def served_address(source: str) -> tuple[str | None, str] | None:
    """Split an input `server:URL` or `name=server:URL` into the event type and the address. The event type is None if
    the input does not name it.

    Returns None for inputs of other kinds.
    """
    if source.startswith(_SERVER):
        return None, source.removeprefix(_SERVER)
    name, equals, rest = source.partition("=")
    return (name, rest.removeprefix(_SERVER)) if equals and rest.startswith(_SERVER) else None


def ask(
    address: str,
    path: str,
    token: str,
    body: object = None,
    *,
    option: str,
    method: str = "GET",
    accept: str = "application/json",
    form: bytes | None = None,
    largest: int = LARGEST,
) -> bytes:
    """Send a request to a server, and return the body of the answer.

    - `body`: the document to send as JSON, or None.
    - `option`: the command's option that contains the address, for messages.
    - `form`: the bytes to send unchanged, or None.
    - `largest`: the greatest size of the answer in bytes.

    Raises CepError if the server cannot be reached, or refuses the request.
    """
    from urllib.error import HTTPError, URLError
    from urllib.request import Request, build_opener

    address = address.rstrip("/")
    if not address.startswith(("http://", "https://")):
        raise refuse(f"{option}{address}: this is not a valid web address", "e.g. `http://host:8000`")
    headers, data = {"Accept": accept}, form
    if token:
        headers["Authorization"] = f"Bearer {token}"
    if body is not None:
        data, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
    try:
        request = Request(f"{address}/{path}", data, headers, method=method)
        with build_opener(_no_redirections()).open(request, timeout=_SECONDS) as answer:
            content: bytes = answer.read(largest)
            return content
    except HTTPError as error:
        if 300 <= error.code < 400:
            place = plain(error.headers["Location"])
            said = f"if you trust that address, use it: `{option}{place}`"
            raise CepError(f"{address}: it redirects elsewhere ({error.code})", hint=said) from None
        text = error.read(10_000).decode("utf-8", "replace").strip()
        hint = "`--token-file FILE`, or the token in CEP_TOKEN" if error.code == 401 else None
        raise CepError(f"{address}: {plain(text) or error.reason} ({error.code})", hint=hint) from None
    except (URLError, OSError, ValueError) as error:
        reason = error.reason if isinstance(error, URLError) else error
        said = reason_of(reason) if isinstance(reason, OSError) else str(reason)
        raise CepError(f"{address}: {said}", hint=f"say where `cep serve` runs with `{option}URL`") from None


def token_of(file: Path | None) -> str:
    """Return the token in a file. If `file` is None, return the token in an environment variable.

    Raises CepError if the file cannot be read, or does not contain exactly one token.
    """
    if file is None:
        return os.environ.get("CEP_TOKEN", "").strip()
    try:
        words = file.read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else "this is not a text in UTF-8"
        raise refuse(f"--token-file {file}: {reason}") from None
    if len(words) != 1:
        hint = "write your own token into a file, without the other lines of the server's token file"
        raise refuse(f"--token-file {file}: there are {len(words)} words, not a token", hint)
    return words[0]


def plain(text: object) -> str:
    """Join the lines of a text from a server to one line, without control characters."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in str(text)).split())


def _no_redirections() -> HTTPRedirectHandler:
    """Return a handler that refuses redirections: the server to which a request is redirected must not receive the
    token, and a POST request would become a GET request."""
    from urllib.request import HTTPRedirectHandler

    class Refusing(HTTPRedirectHandler):
        def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> None:
            return None

    return Refusing()
