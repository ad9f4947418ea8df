"""Read entities of a SensorThings service, such as Things and Datastreams, page by page. Observations are not read."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote, urlsplit

from cep.connectors.addresses import Address
from cep.connectors.brokers.sensorthings import entity_sets, server
from cep.core.http_reader import HttpFailure, JsonReader

_SAFE = "%$&=()',/:;+!*@?~"
_END = "/Observations"
_ASKED = (
    ("Things", "Locations"),
    ("Datastreams", "Thing($select=id),Sensor,ObservedProperty"),
    ("MultiDatastreams", "Thing($select=id),Sensor,ObservedProperties"),
)


def service_iri(address: Address) -> str:
    """Return the address of a service as it appears in the IRIs of the service's entities.

    Raises CepError if the address is not that of a service, but of one of its entities.
    """
    path = "/" + address.path.removesuffix(_END)
    if path.endswith(")"):
        raise address.refused(
            "this is the address of one entity, not of a service", "leave the entity out: `.../FROST-Server/v1.1`"
        )
    host = address.text.partition("://")[2].partition("/")[0]
    return f"http{'s' * address.tls}://{host}{path}"


def things(address: Address) -> dict[str, list[dict[str, Any]]]:
    """Return the entities of a service, by the name of their entity set. Each list is sorted by id.

    Raises CepError if the service does not answer correctly.
    """
    path = "/" + address.path.removesuffix(_END)
    try:
        reader = JsonReader(server(address))
        try:
            sets = entity_sets(reader, path)
            most = address.options.get("page")
            return {name: _entities(reader, f"{path}/{name}", expand, most) for name, expand in _ASKED if name in sets}
        finally:
            reader.close()
    except HttpFailure as failure:
        raise address.refused(failure.reason, failure.hint) from None


def _entities(reader: JsonReader, path: str, expand: str, most: str | None) -> list[dict[str, Any]]:
    """Return the entities of an entity set. `most`: the page size to request; None requests the server's default size.

    Some servers refuse a page size above their limit. For these servers, pass None.
    """
    entities: list[dict[str, Any]] = []
    query, before = f"$orderby={quote('id asc')}&$expand={quote(expand, safe=_SAFE)}", ""
    query += "" if most is None else f"&$top={most}"
    while query and query != before:
        text = reader.get(f"{quote(path, safe=_SAFE)}?{query}")
        try:
            page = json.loads(text)
            rows = page["value"]
            assert isinstance(rows, list) and all(isinstance(row, dict) and "@iot.id" in row for row in rows)
        except (ValueError, KeyError, TypeError, AssertionError):
            start = " ".join(text[:60].split())
            hint = "is this the path of a SensorThings service, such as `/FROST-Server/v1.1`?"
            raise HttpFailure(f"{path}: the answer is not a page of entities: `{start}`", hint) from None
        entities += rows
        before, query = query, quote(urlsplit(str(page.get("@iot.nextLink", ""))).query, safe=_SAFE) if rows else ""
    return entities
