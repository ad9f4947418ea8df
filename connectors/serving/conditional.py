"""Conditional requests (RFC 9110, section 13.1.2): detect that the client already has the current version."""

from __future__ import annotations

from starlette.datastructures import Headers


def matches_etag(headers: Headers, tag: str) -> bool:
    """Return True if `If-None-Match` contains the tag. Weak tags match, too, because compressed responses have them."""
    tags = [tag.strip().removeprefix("W/") for tag in ",".join(headers.getlist("if-none-match")).split(",")]
    return tag.removeprefix("W/") in tags or tags == ["*"]
