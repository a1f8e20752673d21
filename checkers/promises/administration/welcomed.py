"""Who registers is told of the cluster, for `checkers.promises.administration`.

A controller that hears of a registration opens a channel to that broker and sends it UpdateMetadata
at once, and what it leads and follows (KafkaController.onBrokerStartup); so does who takes office,
with all that are registered then. Each request names the registration that it is for (KIP-380).

- ``never-addressed``: in `WELCOME_NS` since a broker had registered neither it nor the controller,
  which was one all the time, was disturbed, and nobody had sent it anything in the name of that
  registration.

The controller's own word counts, as it is about to write a request: an attempt is enough. A fault
that disturbs nobody but by events of brokers (`_BY_EVENTS`) is over when these are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from checkers.facts.office import written
from checkers.judging.witness import Finding, Pick

RULE: Final = "never-addressed"
WELCOMED: Final = "registrations that a controller heard of"
WELCOME_NS: Final = 3_000_000_000
"""What takes milliseconds, and on a busy machine a second."""
_BY_EVENTS: Final = ("kill", "stop", "pause", "unseen-bounce")
Row = Mapping[str, Any]
Trial = tuple[str, int]
Life = tuple[int, int]
"""A broker, and the epoch of one of its registrations."""


def welcomed(
    trial: Trial,
    registered: Collection[tuple[Row, int]],
    sent: Mapping[Life, int],
    calm: Callable[[int, int, int, int, Collection[str]], tuple[int, int] | None],
    saw: Callable[[int], object],
) -> Iterator[Finding]:
    """``registered``: each by its row of ZooKeeper's log, and when (ns) it ended; ``sent``: when
    the first request went to each; ``calm``: of a broker, from when, until when (ns), for how long,
    beside which faults: who was controller in the first such span, and its end."""
    for row, end_t in registered:
        node, epoch = row["node"], row["zxid"]
        found = calm(node, row["t"], end_t, WELCOME_NS, _BY_EVENTS)
        if found is None:
            continue
        saw(1)
        controller, until_t = found
        if sent.get((node, epoch), until_t) < until_t:
            continue
        yield Finding(
            RULE,
            f"node {node} registered with broker epoch {epoch}, and in "
            f"{(until_t - row['t']) / 1e9:.1f} s, in the last {WELCOME_NS / 1e9:.0f} of which node "
            f"{controller} was controller, and nothing disturbed the two, nobody sent it a request "
            "that names that registration",
            *trial,
            (
                written(row),
                Pick("zk_write", {"what": "controller"}, to_t=until_t, rows=1, last=True),
                Pick("control_send", {"to": node}, to_t=until_t, rows=1, last=True),
            ),
        )
