"""Refusal of federated queries: the server never queries another endpoint."""

from __future__ import annotations

from collections.abc import Mapping

from cep.connectors.rdf.question import QueryRefused
from cep.knowledge.query.federation import FederatedQuery, check_federation

REFUSED = "`SERVICE` is refused: this endpoint does not query other endpoints"


def refuse_federation(text: str, prefixes: Mapping[str, str]) -> None:
    """Raise QueryRefused (code `service`) if a query has a SERVICE clause, which would query another endpoint.

    Raise QueryRefused (code `syntax`) for some queries that are not valid SPARQL. Others are not detected.
    """
    try:
        check_federation(text, prefixes)
    except FederatedQuery:
        raise QueryRefused("service", REFUSED) from None
    except SyntaxError as error:
        raise QueryRefused("syntax", str(error)) from None
