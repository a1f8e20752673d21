"""What must hold: one promise a module. This is the table of them all, in the order of reports.

A new promise is a new file with a ``PROMISE``, its name here, and its test. One that has grown is a
folder: its ``__init__.py`` says what it promises and puts together what its other files find, each
a few rules that need the same facts. What several promises need is in `checkers.facts`.

    activity             did anything happen at all?
    evidence             is all that was seen in the history, and are its times to be trusted?
    recovery             did everything come back that a fault had taken away?
    stale-metadata       who was told about a leader that was no longer one?
    shown-metadata       are leaders and in-sync sets shown as they were committed?
    whole-metadata       does every broker answer, and name what exists, and the controller?
    epochs               do epochs only rise, and does each have one holder?
    departures           is a broker that is gone replaced by those who live?
    administration       does what an operator asks for come about, and a cluster at all?
    truncation-loss      what was acknowledged and is gone?
    controller-latency   where did controller requests wait?
    controller-queues    do the controller's metrics tell what its queues were like?
    planes               is the arm what its name says?
    fencing              was anything accepted from a controller or leader of the past?
    refusals             were stale requests, and only they, refused with Kafka's error?
    succession           did only the newest controller decide?
    handing-over         did who was stopped in order let others lead first?
    availability         how long was a partition without a leader that serves?
    topic-deletion       were topics deleted, and none before its replicas stopped?
    replicas             do all logs of a partition say the same?
    records              is in the log what was sent, as often as it may be?
    polls                is a consumer given every record, once, in order?
    offsets              are its log's beginning, end and leader epochs told as they are?
    log-starts           does a log begin where it was told to, and stay so?
    retention            does a log lose what is too old or too much, and nothing else?
    log-files            do logs lie on disk as they are served?
    descriptions         is an operator told what is so?
    exceptions           does no broker's own code trip over itself?
    groups               does a consumer group go on where it was?

Importing this package is cheap: Spark comes with the modules.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

from checkers.judging.promise import Promise

NAMES: Final = (
    "activity",
    "evidence",
    "recovery",
    "stale-metadata",
    "shown-metadata",
    "whole-metadata",
    "epochs",
    "departures",
    "administration",
    "truncation-loss",
    "controller-latency",
    "controller-queues",
    "planes",
    "fencing",
    "refusals",
    "succession",
    "handing-over",
    "availability",
    "topic-deletion",
    "replicas",
    "records",
    "polls",
    "offsets",
    "log-starts",
    "retention",
    "log-files",
    "descriptions",
    "exceptions",
    "groups",
)
"""The module of a promise is its name with underscores."""


def promise(name: str) -> Promise:
    """The promise of that name; KeyError when there is none."""
    if name not in NAMES:
        raise KeyError(f"no promise {name!r}; allowed: {', '.join(NAMES)}")
    found: Promise = import_module(f"checkers.promises.{name.replace('-', '_')}").PROMISE
    return found


def promises() -> list[Promise]:
    return [promise(name) for name in NAMES]
