"""One look after another at a run that goes on; what they find goes to its ``live.jsonl``.

A line is one of

    began      the watch looks for the first time
    finding    promise, rule, arm, trial, says, t (ns), lag_ms: how long after t it was told
    figures    the last half minute by arm (`checkers.live.figures`); what the looks cost so far
    ended      all that was written was looked at: the findings, the cost, what was left out

`Watch` knows nothing of clocks and processes: a look is given the time up to which rows are there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from checkers.history import KINDS
from checkers.history.frames import History
from checkers.history.parts import stored_schema
from checkers.history.run_info import RunInfo
from checkers.live import decided, offsets, order
from checkers.live.accusation import Accusation
from checkers.live.figures import TOLD_BY as FIGURED
from checkers.live.figures import Figures
from checkers.live.intake import HOLD_NS, Intake
from checkers.live.tail import LiveTrial, Tail

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

Rows = Mapping[str, list[dict[str, Any]]]
_EXERCISES: Final = 3
UNCLEAN: Final = "unclean.leader.election.enable"
"""Where a run sets it, brokers were told to allow unclean elections."""


@dataclass(slots=True)
class _Seen:
    """What is known of one trial."""

    intake: Intake
    order: pa.Table | None = None
    offsets: offsets.Offsets = field(default_factory=offsets.Offsets)
    wrong: list[Any] = field(default_factory=list)
    """Offsets that are to be told of."""
    undecided: bool = False
    """There is something new for `decided`."""
    shown: dict[tuple[Any, ...], int] = field(default_factory=dict)
    """By broker, its life, and partition: the newest leader epoch that it showed."""

    def news(self, rows: Rows) -> Rows:
        """The rows without answers that show once more what was the newest already: nothing that
        came before them can be newer, and readers ask far more often than anything changes."""
        kept = []
        for row in sorted(rows.get("metadata", ()), key=lambda row: int(row["t"])):
            cuts = self.intake.died.get(row.get("node") or 0, ())
            lives = (bisect_right(cuts, row.get("invoke_t") or 0), bisect_right(cuts, row["t"]))
            place = (row.get("node"), *lives, row.get("topic"), row.get("partition"))
            epoch = row.get("leader_epoch")
            if row.get("type") != "ok" or epoch is None:
                continue
            newest = self.shown.get(place, -1)
            if epoch != newest:
                kept.append(row)
                self.shown[place] = max(epoch, newest)
        return {**rows, "metadata": kept}


class Watch:
    """Owned by one thread."""

    def __init__(
        self, spark: SparkSession, run: RunInfo, now: Callable[[], int], *, unclean: bool = False
    ) -> None:
        """``now``: CLOCK_MONOTONIC (ns), as rows have it; ``unclean``: the brokers were told to
        allow unclean elections."""
        self._spark, self._run, self._now, self._unclean = spark, run, now, unclean
        self._tail = Tail()
        self._seen: dict[LiveTrial, _Seen] = {}
        self._told: set[tuple[Any, ...]] = set()
        self.figures = Figures()
        self.rows = 0

    def look(self, trials: list[LiveTrial], *, last: bool = False) -> Iterator[Accusation]:
        """What is certain now and was not told yet. ``last``: nobody writes any more."""
        for trial in trials:
            if trial not in self._seen:
                self._seen[trial] = _Seen(Intake(trial.arm, trial.trial, unclean=self._unclean))
            seen = self._seen[trial]
            began = self._now()
            for path in (*trial.clients(), *trial.others()):
                for row in self._tail.read(path):
                    seen.intake.take(row)
            horizon = 2**62 if last else began - HOLD_NS
            rows = seen.intake.let_through(horizon)
            self.rows += sum(map(len, rows.values()))
            if rows or last:
                yield from self._judge(seen, rows, min(horizon, began))

    def behind(self, trials: list[LiveTrial]) -> bool:
        """Whether a look left something unread."""
        paths = (path for trial in trials for path in (*trial.clients(), *trial.others()))
        return any(self._tail.behind(path) for path in paths)

    @property
    def left_out(self) -> dict[str, int]:
        """What was not judged: lines that are no rows, offsets that were too many."""
        cut = sum(seen.offsets.cut for seen in self._seen.values())
        return {"lines": self._tail.skipped, "offsets": cut}

    def _judge(self, seen: _Seen, rows: Rows, now_t: int) -> Iterator[Accusation]:
        intake = seen.intake
        if not intake.forging:
            intake.weigh()
        found: list[Accusation] = []
        if rows.keys() & order.TOLD_BY:
            news = seen.news(rows)
            if any(news.get(kind) for kind in order.TOLD_BY):
                told = self._history(news, order.TOLD_BY, {})
                seen.order = order.fold(told, seen.order, intake.died, intake.silenced.stopped)
        found += order.accused(seen.order, intake)
        seen.undecided |= bool(rows.keys() & decided.TOLD_BY)
        seen.offsets.take(rows)
        if rows.keys() & offsets.TOLD_BY:
            seen.wrong += seen.offsets.fold(self._history(rows, offsets.TOLD_BY, {}), now_t)
        if intake.forging:  # what it did is known when it was answered: only fencing asks nobody
            found = [one for one in found if one.promise == order.FENCING]
        else:
            found += offsets.accused(seen.wrong, intake)
            seen.wrong.clear()
            if seen.undecided:
                seen.undecided = False
                kinds = ("leadership", "leader_change", "forged")
                small = self._history({}, frozenset(), {k: intake.small[k] for k in kinds})
                found += decided.accused(small, intake)
        if rows.keys() & FIGURED:
            known = {"leadership": intake.small["leadership"]}
            figured = {**rows, "metadata": _superseded(rows, intake)}
            self.figures.fold(self._history(figured, FIGURED, known), now_t)
        for one in found:
            if one.key not in self._told:
                self._told.add(one.key)
                yield one

    def _history(self, rows: Rows, kinds: frozenset[str], more: Rows) -> History:
        """The rows of these kinds, and ``more``, as a history."""
        tables, counts = {}, {}
        for kind, of in (*((k, rows[k]) for k in kinds & rows.keys()), *more.items()):
            if of:
                tables[kind] = _table(kind, of)
                counts[kind] = len(of)
        return History(self._spark, self._run, name="live", tables=tables, counts=counts)


def _superseded(rows: Rows, intake: Intake) -> list[dict[str, Any]]:
    """Answers that show an epoch of which a newer one was committed by now."""
    newest: dict[tuple[Any, ...], int] = {}
    for row in intake.small["leadership"]:
        at = (row.get("topic"), row.get("partition"))
        newest[at] = max(newest.get(at, -1), row.get("leader_epoch") or -1)
    return [
        row
        for row in rows.get("metadata", ())
        if (row.get("leader_epoch") or 0) < newest.get((row.get("topic"), row.get("partition")), -1)
    ]


def _table(kind: str, rows: list[dict[str, Any]]) -> pa.Table:
    """Only the columns that are there: the others read as nulls. A row that does not fit is left to
    finishing, which says so."""
    import pyarrow as pa

    schema = stored_schema(kind)
    try:
        return pa.Table.from_pylist(rows, schema=schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        fit = []
        for row in rows:
            try:
                fit.append(pa.Table.from_pylist([row], schema=schema))
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
                continue
        return pa.concat_tables(fit) if fit else schema.empty_table()


def exercise(spark: SparkSession) -> None:
    """Judge a little of everything, so that what Spark needs for it is loaded and compiled while a
    run's cluster starts, and not when the first finding waits for it."""
    watch, t = Watch(spark, RunInfo(), lambda: 0), 10**9
    at = {"topic": "t", "partition": 0, "t": t, "process": "p", "type": "ok", "invoke_t": t - 1}
    part = {"topic": "t", "partition": 0, "leader": 1, "leader_epoch": 0, "error": 0}
    request = {"api": "LEADER_AND_ISR", "error": 0, "correlation_id": 1, "client_id": "c"}
    epochs = {"controller_epoch": 1, "broker_epoch": 1, "own_broker_epoch": 1}
    rows: tuple[dict[str, Any], ...] = (
        {"f": "node_event", "event": "start", "node": 1, "t": 1, "process": "p"},
        {"f": "leadership", **at, **part, "source": "zk", "isr": [1], "partition_epoch": 1},
        {"f": "leader_change", **at, **part, "node": 1, "role": "leader", "boot": 1},
        {"f": "control_request", **at, **request, **epochs, "node": 1, "partitions": [part]},
        *({"f": "metadata", **at, "node": 1, "leader_epoch": epoch} for epoch in (0, 1)),
        {"f": "produce", **at, "acks": -1, "offset": 0, "value": 1},
        {"f": "fetch", **at, "offset": 0, "value": 1},
        {"f": "probe", **at, "planned_t": t - 1},
    )
    for _ in range(_EXERCISES):
        seen = _Seen(Intake("a", 0))
        for row in rows:
            allowed = KINDS[row["f"]].all_columns.keys() | {"f"}
            seen.intake.take({name: found for name, found in row.items() if name in allowed})
        for found in watch._judge(seen, seen.intake.let_through(2 * t), 2 * t):
            raise AssertionError(f"nothing is wrong there: {found}")
