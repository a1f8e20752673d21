"""ZooKeeper's own log, held against itself and against what else was seen of the same znodes.

What the log says of one znode comes in an order in which it can have been: made, written, removed,
and made again. And what others saw or told of it is there:

    leadership    bears the zxid that made the partition's state (its czxid): the log made it then
    controller    who tells that it was elected was so by a write of the controller epoch
    final_state   has the replicas that the topic was given last

The log may begin later than the cluster: of a znode that it has not made nothing is held against
what comes first. Lawful, and similar: a topic that is removed takes its partitions' states along,
told of or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.leadership import Key, key_of
from checkers.facts.office import in_order

if TYPE_CHECKING:
    from checkers.history.frames import History

Row = Mapping[str, Any]
Trial = tuple[str, int]
_LASTING: Final = ("topic", "state", "controller_epoch")
"""Znodes that outlast who made them: of the others some are gone with a session, and who looks at
the log need not see it."""


def disorders(history: History) -> Iterator[tuple[Trial, str]]:
    """By trial, in words."""
    yield from _steps(history)
    yield from _incarnations(history)
    yield from _elections(history)
    yield from _replicas(history)


def _steps(history: History) -> Iterator[tuple[Trial, str]]:
    """Each znode's first step that cannot be."""
    there: dict[tuple[Any, ...], bool] = {}
    told: set[tuple[Any, ...]] = set()
    seen: set[tuple[Any, ...]] = set()
    for row in in_order(history):
        if row["what"] not in _LASTING:
            continue
        trial = (row["arm"], row["trial"])
        place = (row["topic"], row["partition"] if row["what"] == "state" else None)
        node = (*trial, row["what"], *place)
        once = (*node, row["zxid"], row["step"])
        if once in seen:
            continue  # a topic's write is one row a partition
        seen.add(once)
        known, step = there.get(node), row["step"]
        odd = known is True if step == "created" else known is False
        if odd and node not in told:
            told.add(node)
            name = "-".join(str(part) for part in place if part is not None) or row["what"]
            was = "it was there" if known else "it was not there"
            yield trial, f"ZooKeeper's log has the {row['what']} {name} {step} while {was}"
        there[node] = step != "removed"
        if (row["what"], step) == ("topic", "removed"):
            for other in [n for n in there if n[:4] == (*trial, "state", row["topic"])]:
                del there[other]


def _incarnations(history: History) -> Iterator[tuple[Trial, str]]:
    made: dict[Key, set[int]] = {}
    begins: dict[Trial, int] = {}
    for row in in_order(history):
        begins.setdefault((row["arm"], row["trial"]), row["zxid"])
        if (row["what"], row["step"]) == ("state", "created") and row["topic"] is not None:
            made.setdefault(key_of(row), set()).add(row["zxid"])
    told: set[Key] = set()
    for row in history.rows("leadership"):
        by = row["incarnation"]
        if row["source"] != "zk" or row["topic"] is None or by is None:
            continue
        key = key_of(row)
        number = int(by) if by.isdigit() else None
        in_the_log = key[:2] in begins and (number is None or number >= begins[key[:2]])
        if in_the_log and key not in told and number not in made.get(key, ()):
            told.add(key)
            says = f"the znode of {key[2]}-{key[3]} that was watched was made by write"
            yield key[:2], f"{says} {by}, and by ZooKeeper's log it was not"


def _elections(history: History) -> Iterator[tuple[Trial, str]]:
    """Where the log has no election at all, though one was told of in its time."""
    raised = {
        (r["arm"], r["trial"]) for r in history.rows("zk_write") if r["what"] == "controller_epoch"
    }
    begun: dict[Trial, int] = {}
    for row in history.rows("zk_write"):
        trial = (row["arm"], row["trial"])
        begun[trial] = min(begun.get(trial, row["t"]), row["t"])
    told: set[Trial] = set()
    for row in history.rows("controller"):
        trial = (row["arm"], row["trial"])
        in_its_time = trial in begun and row["t"] - (row["error_ns"] or 0) >= begun[trial]
        if row["event"] == "elected" and in_its_time and trial not in raised | told:
            told.add(trial)
            yield trial, f"{row['process']} was elected, and ZooKeeper's log has no election"


def _replicas(history: History) -> Iterator[tuple[Trial, str]]:
    last: dict[Key, Row] = {}
    for row in in_order(history):
        if row["what"] == "topic" and row["partition"] is not None and row["step"] != "removed":
            last[key_of(row)] = row
    for row in history.rows("final_state"):
        if row["what"] != "partition" or None in (row["topic"], row["replicas"]):
            continue
        known = last.get(key_of(row))
        if known is None or known["replicas"] is None:
            continue
        if set(known["replicas"]) != set(row["replicas"]):
            says = f"{row['topic']}-{row['partition']} had replicas {list(row['replicas'])} in the"
            was = list(known["replicas"])
            yield key_of(row)[:2], f"{says} end; by ZooKeeper's log it was given {was}"
