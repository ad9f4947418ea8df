"""The labels of an alert. They identify the alert in Alertmanager. The matchers of silences and routes compare them."""

from __future__ import annotations

import re

from cep.connectors.alerts.lifecycle import AlertChange
from cep.connectors.alerts.text import value_text
from cep.rules.alert import CERTAINTY, URGENCY

LABELLED = ("severity", "urgency", "certainty", "labels", "key")
"""The fields of a change that determine the labels of its alert, in addition to the alert's name."""

_NO_LABEL = re.compile(r"[^a-zA-Z0-9_]")


def alert_labels(change: AlertChange, program: str, status: str = "Actual") -> dict[str, str]:
    """Return an alert's labels: `alertname`, `severity`, `program`, its LABELS and the attributes of its key.

    Urgency and certainty are labels only if they do not have their usual values. `status` is a label only if it is not
    `Actual`. If an attribute of the key has the name of another label, its label is called `key_…`.
    """
    labels = {"alertname": change.name, "severity": change.severity.lower(), "program": program}
    if change.urgency != URGENCY:
        labels["urgency"] = change.urgency.lower()
    if change.certainty != CERTAINTY:
        labels["certainty"] = change.certainty.lower()
    if status != "Actual":
        labels["status"] = status.lower()
    labels |= change.labels
    for name, value in change.key.items():
        label = _NO_LABEL.sub("_", name)
        if change.labels.get(label) == value_text(value):
            continue
        label = f"key_{label}" if label in labels or not label[0].isalpha() else label
        while label in labels:  # two names may become equal when characters that labels cannot have are replaced
            label += "_"
        labels[label] = value_text(value)
    return labels
