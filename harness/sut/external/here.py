"""Which faults of a plan can be played on a cluster that runs already, and why the others cannot.

Its brokers advertise their own addresses to each other: proxies stand before clients alone. So a
fault on a link can be played where that link is the clients', and nowhere else. What would change
the cluster's settings, or damage logs that hold others' records too, is not played whatever its
owner allows. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from faults.plan import Plan
from faults.protocol import Capability, Entry, Link
from faults.registry import FAULTS

NEVER: Final[Mapping[str, str]] = {
    "torn-tail": "damages logs on the disk of somebody else's broker",
    "wipe-disk": "removes logs from the disk of somebody else's broker",
    "fail-disk": "moves logs on the disk of somebody else's broker",
    "outdated-expansion": "removes logs from the disk of somebody else's broker",
    "last-standing": "removes logs from the disk of somebody else's broker",
    "broker-config": "changes settings of somebody else's broker",
    "plane-upgrade": "changes settings of somebody else's broker",
}
_BY_LINK: Final = ("toxic", "link-down")
_ON_CLIENTS: Final = ("unanswered-kill",)
"""Faults whose link is the clients', without being told."""


def lacking(entry: Entry, offered: frozenset[Capability]) -> str | None:
    """Why it cannot be played; None when it can."""
    if entry.fault in NEVER:
        return NEVER[entry.fault]
    missing = FAULTS[entry.fault].needs - offered
    if _only_clients(entry):
        missing -= {Capability.LINKS}
    if missing:
        return f"needs {', '.join(_NAMES.get(each, str(each)) for each in sorted(missing))}"
    return None


_NAMES: Final[Mapping[Capability, str]] = {
    Capability.LINKS: "links between brokers that can be cut",
    Capability.KILL: "commands for kill and start",
    Capability.PAUSE: "commands for pause and resume",
    Capability.CONTROLLED_STOP: "commands for stop and start",
    Capability.LOG_FILES: "log folders that can be read from here",
}


def _only_clients(entry: Entry) -> bool:
    if entry.fault in _ON_CLIENTS:
        return True
    link = entry.params.get("link", Link.CLIENT)
    links = [link] if isinstance(link, str) else link
    return entry.fault in _BY_LINK and set(links) == {str(Link.CLIENT)}


def playable(plan: Plan, offered: frozenset[Capability]) -> tuple[Plan, list[tuple[Entry, str]]]:
    """The plan without what cannot be played, and what was left out with the reason."""
    kept, skipped = [], []
    for entry in plan.entries:
        why = lacking(entry, offered)
        if why is None:
            kept.append(entry)
        else:
            skipped.append((entry, why))
    return replace(plan, entries=tuple(kept)), skipped
