"""Exceptions: does no broker's own code trip over itself?

A broker survives most of what its code does wrong. A request is answered UNKNOWN_SERVER_ERROR; a
thread in the background tries again, for ever, and what it was to do never comes about: a purgatory
that forgets nobody, a notification that is never cleared away. No client is told, and no promise is
broken while a run lasts. Operators find it in the log, and so does this: what a broker logs with an
exception it writes down as well (`exception`).

Violation:
- ``unexpected-exception``: one of the types that nothing outside a program brings about
  (`OF_MISTAKES`): a name that is not there, a value of another type, a collection that was changed
  while it was read. And a wrong value, where a controller meets it in an event: that reads nothing
  but ZooKeeper, whose errors have types of their own.

Lawful, and looks similar: whatever a fault brings about. ZooKeeper is gone, a connection is cut, a
disk is full, a frame is damaged: such exceptions have types of their own (OSError and those of
libraries and of the broker), and are logged as well. They are counted, and accuse nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from checkers.judging.outcome import Outcome
from checkers.judging.promise import Promise
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

BOOTS: Final = "boots of brokers that write down what they trip over"
OF_MISTAKES: Final = frozenset(
    f"builtins.{name}"
    for name in (
        *("AssertionError", "AttributeError", "IndexError", "KeyError", "NameError"),
        *("NotImplementedError", "RecursionError", "RuntimeError", "StopIteration", "TypeError"),
        *("UnboundLocalError", "ZeroDivisionError"),
    )
)
IN_EVENTS: Final = ("kafka.controller.KafkaController", "builtins.ValueError")
"""Who tells of what an event came to, and what is none but a mistake there."""
_RULE: Final = "unexpected-exception"
Row = Mapping[str, Any]


def check(history: History) -> Outcome:
    outcome = Outcome()
    boots = {
        (row["arm"], row["trial"], row["process"], row["boot"])
        for row in history.rows("source")
        if row["boot"] is not None
    }
    for arm, trial, *_ in boots:
        outcome.saw(arm, trial, BOOTS)
    for row in history.rows("exception"):
        if row["error"] in OF_MISTAKES or (row["logger"], row["error"]) == IN_EVENTS:
            outcome.add(_finding(row))
    return outcome


def _finding(row: Row) -> Finding:
    says = f"node {row['node']} met {row['error'].partition('.')[2]} in {row['place']}"
    where = {name: row[name] for name in ("node", "boot", "error", "place")}
    picks = (Pick("exception", where),)
    return Finding(_RULE, f"{says}: {row['says']}", row["arm"], row["trial"], picks)


PROMISE: Final = Promise(
    name="exceptions",
    says="No broker's own code trips over itself.",
    source="Jepsen's checker/log-file-pattern; Kafka's 'Unexpected error handling request' "
    "(KafkaApis.handleError) and 'Uncaught exception in thread' (KafkaThread)",
    rules={_RULE: "No code meets an exception that only a mistake in a program brings about."},
    evidence={BOOTS: "whether they met any exception or not"},
    blind=(
        "systems that write down no exceptions, Apache Kafka among them",
        "ValueError, which a closed file and nonsense from outside bring about as well, but for a "
        "controller's events",
        "what is caught and logged without the exception, or not at all",
    ),
    check=check,
)
