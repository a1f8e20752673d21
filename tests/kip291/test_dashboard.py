"""``docs/grafana.json``: every metric that the dashboard names is exported, and none of the KIP's
is missing from it."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.kip291.parts import RunningBroker, eventually
from tests.kip291.requests import Sender, metadata, produce, update_metadata

DASHBOARD = Path(__file__).parents[2] / "docs" / "grafana.json"
_METRIC = re.compile(r"\bkafka_\w+")
_SELECTOR = re.compile(r"(\bkafka_\w+)\{([^}]*)\}")
_BY = re.compile(r"by \(([^)]*)\) \(rate\((kafka_\w+)")
_LEGEND = re.compile(r"\{\{(\w+)\}\}")
_OF_PROMETHEUS = {"instance", "job"}


def expressions() -> list[tuple[str, str]]:
    """(expression, legend) of every panel."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [(t["expr"], t["legendFormat"]) for panel in panels for t in panel["targets"]]


@pytest.fixture
def exported(start: Callable[..., RunningBroker]) -> dict[str, list[dict[str, str]]]:
    """Samples of a broker that is its own controller and has handled a little of everything: labels
    of each, by name, as Prometheus would read them."""
    broker = start("dual")
    broker.client().ask(metadata())
    broker.client().ask(produce("nowhere"))
    broker.controller().ask(update_metadata({}, sender=Sender(controller_epoch=0)))
    url = (broker.folder / "data" / "metrics.url").read_text().strip()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def read() -> dict[str, list[dict[str, str]]]:
        found: dict[str, list[dict[str, str]]] = {}
        text = opener.open(f"{url}/metrics", timeout=60).read().decode()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                found.setdefault(sample.name, []).append(dict(sample.labels))
        return found

    errors = "kafka_network_requestmetrics_errorspersec_count_total"
    eventually(lambda: any(s["error"] != "NONE" for s in read().get(errors, ())))
    return read()


def test_every_metric_of_the_dashboard_is_exported(
    exported: dict[str, list[dict[str, str]]],
) -> None:
    named = {name for expression, _ in expressions() for name in _METRIC.findall(expression)}
    assert len(named) > 25
    assert sorted(named - exported.keys()) == []


def test_every_label_of_the_dashboard_is_exported(
    exported: dict[str, list[dict[str, str]]],
) -> None:
    for expression, legend in expressions():
        wanted: dict[str, set[str]] = {}
        for name, selector in _SELECTOR.findall(expression):
            labels = re.findall(r'(\w+)[=!~]+"', selector)
            wanted.setdefault(name, set()).update(label for label in labels if label != "processor")
        for labels, name in _BY.findall(expression):
            wanted.setdefault(name, set()).update(labels.split(", "))
        for name in _METRIC.findall(expression):
            if "sum" not in expression:
                wanted.setdefault(name, set()).update(_LEGEND.findall(legend))
        for name, labels in wanted.items():
            for label in labels - _OF_PROMETHEUS:
                assert any(label in sample for sample in exported[name]), (name, label)


def test_the_dashboard_shows_every_metric_of_the_kip() -> None:
    shown = " ".join(expression for expression, _ in expressions())
    for prefix in ("controlplane", ""):
        for metric in (
            f"requestchannel_{prefix}requestqueuesize",
            f"requestchannel_{prefix}responsequeuesize",
            f"socketserver_{prefix}networkprocessoravgidlepercent",
            f"socketserver_{prefix}expiredconnectionskilledcount",
            f"kafkarequesthandlerpool_{prefix}requesthandleravgidlepercent",
            f"acceptor_{prefix}acceptorblockedpercent",
        ):
            assert metric in shown
