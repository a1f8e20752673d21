"""What must hold: one promise a file. This is the table of them all, in the order of reports.

A new promise is a new file with a ``PROMISE``, its name here, and its test.

    activity             did anything happen at all?
    stale-metadata       who was told about a leader that was no longer one?
    shown-metadata       are leaders and in-sync sets shown as they were committed?
    whole-metadata       does every broker answer, and name what exists, and the controller?
    epochs               do epochs only rise, and does each have one holder?
    truncation-loss      what was acknowledged and is gone?
    controller-latency   where did controller requests wait?
    fencing              was anything accepted from a controller or leader of the past?
    succession           did only the newest controller decide?
    availability         how long was a partition without a leader that serves?
    topic-deletion       were topics deleted, and none before its replicas stopped?
    log                  Jepsen's Kafka anomalies, and agreement of the replicas

Importing this package is cheap: Spark comes with the modules.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

from checkers.judging.promise import Promise

NAMES: Final = (
    "activity",
    "stale-metadata",
    "shown-metadata",
    "whole-metadata",
    "epochs",
    "truncation-loss",
    "controller-latency",
    "fencing",
    "succession",
    "availability",
    "topic-deletion",
    "log",
)
"""The file of a promise is its name with underscores."""


def promise(name: str) -> Promise:
    """The promise of that name; KeyError when there is none."""
    if name not in NAMES:
        raise KeyError(f"no promise {name!r}; allowed: {', '.join(NAMES)}")
    found: Promise = import_module(f"checkers.promises.{name.replace('-', '_')}").PROMISE
    return found


def promises() -> list[Promise]:
    return [promise(name) for name in NAMES]
