"""How many partitions each broker was behind in, over time: stale metadata as a step picture.

A broker is behind in a partition from the commit of a leader epoch until its metadata cache
(`metadata_update`; where brokers do not trace, its answers to clients: `metadata`) shows that epoch
or a higher one. As in the checker, an epoch counts only for brokers that had known an earlier one,
and the time in which a broker's process was down does not count.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field

from harness.report.run_folder import RunFolder
from harness.report.timeline import Clock, Commit, Key, down_spans

TP = tuple[str, int]
Span = tuple[int, int]


@dataclass(slots=True)
class Behind:
    """One broker in one trial: ``steps`` are (t, partitions behind from then on)."""

    steps: list[tuple[int, int]] = field(default_factory=list)
    total_ns: int = 0
    longest_ns: int = 0


def behind(
    folder: RunFolder, clocks: dict[Key, Clock], commits: dict[Key, list[Commit]]
) -> tuple[dict[Key, dict[int, Behind]], str]:
    """By trial and broker, and which kind of row it was read from (empty: there was none)."""
    kind, seen = _first_seen(folder)
    down = down_spans(folder)
    found: dict[Key, dict[int, Behind]] = {}
    for key, of_trial in commits.items():
        clock = clocks.get(key)
        if clock is None:
            continue
        for (*trial, node), partitions in seen.items():
            if tuple(trial) != key:
                continue
            spans = list(_spans(of_trial, partitions, clock.end_t))
            spans = [s for span in spans for s in _without(span, down.get((*key, node), []))]
            found.setdefault(key, {})[node] = _steps(spans)
    return found, kind


def _first_seen(folder: RunFolder) -> tuple[str, dict[tuple[str, int, int], dict[TP, list[Span]]]]:
    """By (arm, trial, node) and partition: (leader epoch, first t), epochs rising."""
    for kind, columns in (
        ("metadata_update", ("node", "topic", "partition", "leader_epoch")),
        ("metadata", ("node", "topic", "partition", "leader_epoch")),
    ):
        first: dict[tuple[str, int, int], dict[TP, dict[int, int]]] = {}
        for row in folder.rows(kind, columns):
            leader_epoch = row["leader_epoch"]
            if row["node"] is None or row["topic"] is None or leader_epoch is None:
                continue
            if leader_epoch < 0:
                continue
            of_node = first.setdefault((row["arm"], row["trial"], row["node"]), {})
            of_node.setdefault((row["topic"], row["partition"]), {}).setdefault(
                leader_epoch, row["t"]
            )
        if first:
            return kind, {
                node: {tp: sorted(epochs.items()) for tp, epochs in partitions.items()}
                for node, partitions in first.items()
            }
    return "", {}


def _spans(of_trial: Iterable[Commit], seen: dict[TP, list[Span]], end_t: int) -> Iterable[Span]:
    for commit in of_trial:
        known = seen.get((commit.topic, commit.partition), [])
        place = bisect_left(known, (commit.leader_epoch, -(2**62)))
        if place == 0:
            continue  # nobody had told it anything of this partition before
        until = min((t for _, t in known[place:]), default=end_t)
        if until > commit.t:
            yield commit.t, until


def _without(span: Span, gaps: Iterable[Span]) -> list[Span]:
    """What is left of a span outside the gaps (ascending, disjoint)."""
    left, (begin, end) = [], span
    for low, high in gaps:
        if low < end and high > begin:
            if low > begin:
                left.append((begin, low))
            begin = max(begin, high)
    if begin < end:
        left.append((begin, end))
    return left


def _steps(spans: list[Span]) -> Behind:
    found = Behind()
    edges: dict[int, int] = {}
    for begin, end in spans:
        edges[begin] = edges.get(begin, 0) + 1
        edges[end] = edges.get(end, 0) - 1
        found.total_ns += end - begin
        found.longest_ns = max(found.longest_ns, end - begin)
    level = 0
    for t in sorted(edges):
        if edges[t]:
            level += edges[t]
            found.steps.append((t, level))
    return found
