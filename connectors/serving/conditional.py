"""Conditional requests (RFC 9110, section 13.1.2). If a client sends such a request, the server does not send a
document that the client already has."""

from __future__ import annotations

from starlette.datastructures import Headers


def matches_etag(headers: Headers, tag: str) -> bool:
    """Return True if the header `If-None-Match` contains the tag.

    A weak tag matches too, because compressed responses have weak tags.
    """
    tags = [tag.strip().removeprefix("W/") for tag in ",".join(headers.getlist("if-none-match")).split(",")]
    return tag.removeprefix("W/") in tags or tags == ["*"]
