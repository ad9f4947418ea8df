"""The entities of a SensorThings service besides observations: its Things and Datastreams, page by page."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote, urlsplit

from cep.connectors.addresses import Address
from cep.connectors.brokers.sensorthings import server
from cep.core.http_reader import HttpFailure, JsonReader

_SAFE = "%$&=()',/:;+!*@?~"
_END = "/Observations"
_ASKED = (
    ("Things", "Locations"),
    ("Datastreams", "Thing($select=id),Sensor,ObservedProperty"),
)


def things(address: Address) -> tuple[str, dict[str, list[dict[str, Any]]]]:
    """Return the address of a service and its entities, by the name of their set, in the order of their ids. CepError:
    it does not answer as it should."""
    path = "/" + address.path.removesuffix(_END)
    host = address.text.partition("://")[2].partition("/")[0]
    base = f"http{'s' * address.tls}://{host}{path}"
    if path.endswith(")"):
        raise address.refused("this is one entity, not a service", "leave it out: `.../FROST-Server/v1.1`")
    try:
        reader = JsonReader(server(address))
        try:
            return base, {name: _entities(reader, f"{path}/{name}", expand) for name, expand in _ASKED}
        finally:
            reader.close()
    except HttpFailure as failure:
        raise address.refused(failure.reason, failure.hint) from None


def _entities(reader: JsonReader, path: str, expand: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    query, before = f"$orderby={quote('id asc')}&$top=1000&$expand={quote(expand, safe=_SAFE)}", ""
    while query and query != before:
        text = reader.get(f"{quote(path, safe=_SAFE)}?{query}")
        try:
            page = json.loads(text)
            rows = page["value"]
            assert isinstance(rows, list) and all(isinstance(row, dict) and "@iot.id" in row for row in rows)
        except (ValueError, KeyError, TypeError, AssertionError):
            start = " ".join(text[:60].split())
            hint = "is this the path of a service of SensorThings, as `/FROST-Server/v1.1`?"
            raise HttpFailure(f"{path}: the answer is not a page of entities: `{start}`", hint) from None
        found += rows
        before, query = query, quote(urlsplit(str(page.get("@iot.nextLink", ""))).query, safe=_SAFE) if rows else ""
    return found
