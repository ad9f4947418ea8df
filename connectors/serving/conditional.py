"""Conditional requests (RFC 9110, section 13.1.2): detect that a client already has what it requests."""

from __future__ import annotations

from starlette.datastructures import Headers


def matches_etag(headers: Headers, tag: str) -> bool:
    """Return True if `If-None-Match` names the tag, also as a weak one, as compressed answers have."""
    tags = [each.strip().removeprefix("W/") for each in ",".join(headers.getlist("if-none-match")).split(",")]
    return tag.removeprefix("W/") in tags or tags == ["*"]
