"""What has come after something else, by what it is, and has a time before that.

Rows of different writers, tied by what they tell of, with the clocks' errors on both sides:

    zk_write       has ZooKeeper's time of the write, and no other
    leadership     as a watch saw it, and topic_deletion: not before the write
    isr_change     a leader takes up its set after ZooKeeper took it (KIP-497)
    controller     elected after ZooKeeper took the election
    final_state    when faults are healed, and before the final logs are read
    log_read, log_end   while the final logs are read

A time that is later than it could be is nobody's here: whoever tells may be slow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.leadership import SHOWN
from checkers.promises.evidence.times import times

if TYPE_CHECKING:
    from checkers.history.frames import History

_MS: Final = 1_000_000
_SLACK_NS: Final = 1_000_000_000
"""Between the harness's own threads, and where two rows' errors are told by halves."""
Row = Mapping[str, Any]
Trial = tuple[str, int]


def misplaced(history: History) -> Iterator[tuple[Trial, str]]:
    """By trial, in words: how many rows of which kind."""
    counts: Counter[tuple[Trial, str, str]] = Counter()
    for rule in (_against_commits, _in_sync_sets, _elections):
        counts.update(rule(history))
    for (key, kind, what), n in sorted(counts.items()):
        yield key, f"{kind}: {n} rows are of a time before {what}"
    yield from _in_phases(history)


def _against_commits(history: History) -> Iterator[tuple[Trial, str, str]]:
    """What bears ZooKeeper's own time."""
    offset_ns = history.run.clock_offset_ns
    if offset_ns is None:
        return
    for kind in ("zk_write", "leadership", "topic_deletion"):
        for row in history.rows(kind):
            if row["commit_ms"] is None or row.get("source") == SHOWN:
                continue
            late_ns = row["t"] - (row["commit_ms"] * _MS + offset_ns)
            slack_ns = _SLACK_NS + (row["error_ns"] or 0) + history.run.clock_error_ns
            if late_ns < -slack_ns:
                yield (row["arm"], row["trial"]), kind, "ZooKeeper's"
            elif kind == "zk_write" and late_ns > slack_ns:
                yield (row["arm"], row["trial"]), kind, "or after ZooKeeper's"


def _in_sync_sets(history: History) -> Iterator[tuple[Trial, str, str]]:
    written: dict[tuple[Any, ...], int] = {}
    for row in history.rows("zk_write"):
        if row["what"] == "state" and row["isr"] is not None:
            one = _set(row)
            written[one] = min(written.get(one, _earliest(row)), _earliest(row))
    for row in history.rows("isr_change"):
        if row["isr"] is not None and _latest(row) < written.get(_set(row), _latest(row)):
            yield (row["arm"], row["trial"]), "isr_change", "ZooKeeper took them"


def _set(row: Row) -> tuple[Any, ...]:
    names = ("arm", "trial", "topic", "partition", "partition_epoch")
    return (*(row[name] for name in names), tuple(sorted(row["isr"])))


def _elections(history: History) -> Iterator[tuple[Trial, str, str]]:
    written: dict[tuple[Any, ...], int] = {}
    for row in history.rows("zk_write"):
        if row["what"] == "controller_epoch":
            one = (row["arm"], row["trial"], row["controller_epoch"])
            written[one] = min(written.get(one, _earliest(row)), _earliest(row))
    for row in history.rows("controller"):
        one = (row["arm"], row["trial"], row["controller_epoch"])
        if row["event"] == "elected" and _latest(row) < written.get(one, _latest(row)):
            yield (row["arm"], row["trial"]), "controller", "ZooKeeper took the election"


def _earliest(row: Row) -> int:
    return int(row["t"]) - (row["error_ns"] or 0)


def _latest(row: Row) -> int:
    return int(row["t"]) + (row["error_ns"] or 0)


_BY_FAULTS: Final = "harness"
_IN_THE_END: Final = ("final_state", "log_read", "log_end", "log_folder", "described")


def _in_phases(history: History) -> Iterator[tuple[Trial, str]]:
    ends = {
        (row["arm"], row["trial"], row["name"]): row["t"]
        for row in history.rows("phase")
        if row["event"] == "end"
    }
    begun = {
        (row["arm"], row["trial"]): row["t"]
        for row in history.rows("phase")
        if (row["name"], row["event"]) == ("final_read", "begin")
    }
    for each in times(history):
        if each.kind not in _IN_THE_END or each.first_t is None or each.last_t is None:
            continue
        if each.kind == "described" and each.process == _BY_FAULTS:
            continue  # what faults asked for, while they lasted
        since_t = begun.get(each.key)
        if each.kind == "final_state":
            since_t = ends.get((*each.key, "heal"))
        until_t = ends.get((*each.key, "final_read"))
        early = since_t is not None and each.first_t < since_t - _SLACK_NS
        late = until_t is not None and each.last_t > until_t + _SLACK_NS
        if early or late:
            yield each.key, f"{each.kind}: there are rows of another time than that of its phase"
