"""Addressed: which life of a broker a controller's requests are meant for, for
`checkers.promises.fencing`.

Each control request carries the epoch of the registration that its sender knows of the broker that
it is for (KIP-380), so that a broker that came back refuses what was meant for its former life. An
epoch of -1 passes that fence, and so would one that was made up. ZooKeeper's log says which
registrations there were: the epoch is the transaction that made it.

Lawful, and looks similar: an epoch of the past (its sender has not heard of the new registration,
and is refused); an epoch older than all that the log tells of, where the log begins late. An epoch
of another broker is none of this one's, though it be older than this one's first.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Final

from checkers.facts.addressees import addressees
from checkers.facts.registrations import log_begins, registered_epochs
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "sent-to-no-life"
SENT: Final = "epochs of brokers that controllers sent"


def addressed(history: History, outcome: Outcome) -> Iterator[Finding]:
    lives = registered_epochs(history)
    if not lives:
        return
    begins = log_begins(history)
    for row in chain.from_iterable(addressees(history).values()):
        known = lives.get((row["arm"], row["trial"], row["to"]))
        if known is None:
            outcome.unjudged(row["arm"], "requests to brokers whose registration nobody logged")
            continue
        outcome.saw(row["arm"], row["trial"], SENT)
        epoch = row["broker_epoch"]
        if epoch in known or 0 <= epoch < begins[row["arm"], row["trial"]]:
            continue
        own = {"node": row["node"], "to": row["to"], "broker_epoch": epoch}
        yield Finding(
            RULE,
            f"node {row['node']} sent {row['n']} control requests to node {row['to']} with broker "
            f"epoch {epoch}; its registrations were {sorted(known)}",
            row["arm"],
            row["trial"],
            (
                Pick("zk_write", {"what": "broker", "node": row["to"]}),
                Pick("control_send", own, rows=1),
            ),
        )
