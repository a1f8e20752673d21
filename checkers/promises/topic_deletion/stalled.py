"""Deletions that nothing stands in the way of, for `checkers.promises.topic_deletion`.

A deletion waits for whoever has replicas of the topic. When all of them are there and a controller
is in office nothing is left to wait for, and nobody else reminds it: the controller itself goes on,
as a broker comes back (KafkaController.onBrokerStartup) and as it takes office
(onControllerFailover).

- ``deletion-stalled``: for `LIMIT_NS` all brokers with replicas of it were registered and had been
  seen ready since (one that comes up registers before it answers anybody), the same controller was
  in office, no fault was in place, and the topic was still there. That it is gone in the end, when
  another event has reminded the controller, makes it no better. One that is never gone is looked at
  as long as the cluster was.

Read from ZooKeeper's own log, the watch of deletions and what the harness saw of brokers; times are
used only as distances.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from checkers.facts.unhindered import all_there, is_logged, looked_until, unhindered
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History
    from checkers.promises.topic_deletion import Deletion

RULE: Final = "deletion-stalled"
FREE: Final = "deletions that nothing stood in the way of"
LIMIT_NS: Final = 15_000_000_000
"""It takes some tenths of a second, and seconds of Apache Kafka on a busy machine."""


def stalled(history: History, outcome: Outcome, found: Sequence[Deletion]) -> Iterator[Finding]:
    for one in found:
        trial = one.arm, one.trial
        over_t = looked_until(history, trial) if one.gone is None else one.gone["t"]
        if over_t is None or not is_logged(history, trial):
            continue
        within = one.requested["t"], over_t
        begin, end = unhindered(history, trial, one.topic, within, all_there)
        outcome.saw(*trial, FREE, int(end > 0))
        if end - begin > LIMIT_NS:
            yield _finding(one, begin, end)


def _finding(one: Deletion, begin: int, end: int) -> Finding:
    return Finding(
        RULE,
        f"topic {one.topic} was to be deleted, and for {(end - begin) / 1e9:.1f} s every broker "
        "with replicas of it was there, a controller was in office, and nothing was done",
        one.arm,
        one.trial,
        (
            Pick("topic_deletion", {"topic": one.topic}),
            Pick("zk_write", {"what": "broker"}, to_t=begin, rows=3, last=True),
            Pick("zk_write", {"what": "controller"}, to_t=begin, rows=1, last=True),
        ),
    )
