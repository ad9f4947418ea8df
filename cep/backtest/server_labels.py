"""Labels of incidents from the verdicts that people give on a server's alerts: `server:URL` or `server:URL#ALERT`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cep.app.cli_alerts import Connection, label_end
from cep.core.errors import CepError
from cep.core.suggest import did_you_mean

SERVER = "server:"


def server_rows(place: str, detect: str, token_file: Path | None = None) -> list[dict[str, Any]]:
    """Return one row for each alert that a person has closed with the verdict `true`.

    - `place`: the server's address. It may name the alert after `#`.
    - `detect`: the name of the alert or event, if `place` does not name the alert.
    - `token_file`: the file that contains the token, or None if the token is in the environment variable CEP_TOKEN.

    Raises CepError if the server refuses the request, or if no alert has this verdict.
    """
    address, _, name = place.removeprefix(SERVER).partition("#")
    closed = Connection(server=address, token_file=token_file).verdicts()
    chosen = [
        alert for alert in closed if alert["name"] == name or (not name and detect in (alert["name"], alert["event"]))
    ]
    if not chosen:
        names = sorted({alert["name"] for alert in closed})
        wanted = name or detect
        listed = ", ".join(f"`{place.partition('#')[0]}#{name}`" for name in names)
        hint = did_you_mean(wanted, names) or (f"name an alert that has verdicts: {listed}" if names else None)
        hint = hint or "`cep alerts close ALERT true` gives a verdict"
        raise CepError(f"--labels {place}: no alert of `{wanted}` was closed", hint=hint, code="labels")
    if len({tuple(alert["key"]) for alert in chosen}) > 1:
        listed = ", ".join(f"`{place}#{alert}`" for alert in sorted({alert_name["name"] for alert_name in chosen}))
        message = f"--labels {place}: alerts of `{detect}` have different keys"
        raise CepError(message, hint=f"use the verdicts of one of them: {listed}", code="labels")
    true = [alert for alert in chosen if alert["verdict"] == "true"]
    if not true:
        message = f"--labels {place}: none of {len(chosen)} verdicts is `true`"
        raise CepError(message, hint="an incident is an alert that was closed as `true`", code="labels")
    return [
        {"start": alert["start"], "end": label_end(alert), **alert["key"], "alert": alert["name"]} for alert in true
    ]
