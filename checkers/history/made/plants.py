"""Anomalies that are planted in a made history: each an exact number of times, and nothing else.

A plant adds rows to those of a clean trial, or changes single values, so that one rule is broken as
often as asked. ``most`` says how often that can be without breaking another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from checkers.history.made.bulk import Records, reads, table
from checkers.history.made.layout import MS, NODES, STILL_NS, TOPIC, Layout, S, Times, leader
from checkers.history.schema import HistoryError

if TYPE_CHECKING:
    import pyarrow as pa

Tables = Iterator[tuple[str, "pa.Table"]]
_FOREIGN: Final = 1 << 60
"""From here on values are of no record that is in a log."""


@dataclass(frozen=True, slots=True)
class Plant:
    """``says``: what is in the history then; ``most``: how often it can be planted."""

    says: str
    most: Callable[[Layout], int]
    rows: Callable[[Layout, Times, int], Tables]


def _even(layout: Layout) -> int:
    return layout.partitions * (layout.log_length // 2)


def _offers(parity: int, named: int) -> Callable[[Layout, Times, int], Tables]:
    """Records that were acknowledged at an offset that holds another."""

    def rows(layout: Layout, times: Times, n: int) -> Tables:
        import pyarrow as pa
        import pyarrow.compute as pc

        for partition in range(layout.partitions):
            own = n // layout.partitions + (partition < n % layout.partitions)
            if not own:
                continue
            numbers = pa.arange(0, own, 1)
            offsets = pc.add(pc.multiply(numbers, 2), parity)
            records = Records(layout, times, partition, offsets)
            base = _FOREIGN + named * (_FOREIGN // 8) + partition * layout.log_length
            op, seq = (pc.add(pc.multiply(one, 2), 1) for one in (records.own_op, records.op))
            yield "produce", records.produced(value=pc.add(numbers, base), op=op, seq=seq)

    return rows


def numbered(records: Records, planted: Mapping[str, int]) -> Any:
    """The numbers that producers give to what they offer: right after each of the first comes one
    that is planted."""
    import pyarrow.compute as pc

    among = (planted.get(name, 0) for name in ("unexplained-loss", "acked-all-lost"))
    return pc.add(
        records.own_op, pc.min_element_wise(records.own_op, pc.if_else(records.is_odd, *among))
    )


def _other_replica(layout: Layout, times: Times, n: int) -> Tables:
    """Nothing is added: `differing` changes what a replica's log holds."""
    return iter(())


def differing(records: Records, n: int) -> Any:
    """The values of a follower's log, of which ``n`` differ from the leader's, spread evenly."""
    import pyarrow.compute as pc

    step = max(1, records.rows // max(n, 1))
    index = pc.divide(records.offset, step)
    at = pc.equal(pc.multiply(index, step), records.offset)
    chosen = pc.and_(at, pc.less(index, n))
    return pc.if_else(chosen, pc.add(records.value, _FOREIGN), records.value)


def _read_otherwise(layout: Layout, times: Times, n: int) -> Tables:
    """Another consumer is given other values at offsets that the first one read."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for partition in range(layout.partitions):
        own = n // layout.partitions + (partition < n % layout.partitions)
        if own:
            records = Records(layout, times, partition, pa.arange(0, own, 1))
            value = pc.add(records.value, 2 * (_FOREIGN // 8) + _FOREIGN)
            yield "fetch", records.fetched(process="consumer-other", value=value)


def _shown(layout: Layout, partition: int, times: Times, n: int, **columns: Any) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = pa.arange(0, n, 1)
    t = pc.add(pc.multiply(numbers, 1_000), times.load_end + 10 * MS)  # after all other reads
    op = pc.add(numbers, reads(layout))
    same = {
        "t": t,
        "process": "metadata-reader",
        "seq": pc.add(pc.multiply(op, layout.partitions), partition),
        "type": "ok",
        "op": op,
        "read": op,
        "invoke_t": pc.subtract(t, 1_000),
        "error": 0,
        "topic": TOPIC,
        "partition": partition,
        "isr": list(NODES),
        "controller_id": 1,
    }
    return table("metadata", n, {**same, **columns})


def _never_committed(layout: Layout, times: Times, n: int) -> Tables:
    """A broker shows leader epochs of one partition that nobody committed, newer than all."""
    import pyarrow as pa
    import pyarrow.compute as pc

    epochs = pc.add(pa.arange(0, n, 1), layout.rounds + 1)
    yield "metadata", _shown(layout, 0, times, n, node=1, leader=2, leader_epoch=epochs)
    newest = layout.rounds
    for partition in range(1, layout.partitions):
        truly = {"leader": leader(partition, newest), "leader_epoch": newest}
        yield "metadata", _shown(layout, partition, times, n, node=1, **truly)


def _accepted(layout: Layout, times: Times, n: int) -> Tables:
    """Forged requests of a controller of before the first are accepted."""
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = pa.arange(0, n, 1)
    t = pc.add(pc.multiply(numbers, 1_000), times.chaos + STILL_NS[1] + S)
    yield (
        "forged",
        table(
            "forged",
            n,
            {
                "t": t,
                "process": "forger",
                "node": 3,
                "type": "ok",
                "op": numbers,
                "invoke_t": pc.subtract(t, 1_000),
                "error": 0,
                "api": "UPDATE_METADATA",
                "plane": "control",
                "lie": "stale_controller_epoch",
                "controller_id": 1,
                "controller_epoch": 0,
                "broker_epoch": 4,
                "correlation_id": pc.add(numbers, 1_000_000),
                "client_id": "forger",
            },
        ),
    )


PLANTS: Final[Mapping[str, Plant]] = {
    "acked-all-lost": Plant(
        "records acknowledged with acks=all that are in no log", _even, _offers(0, 0)
    ),
    "unexplained-loss": Plant(
        "records acknowledged with acks=1 that are in no log, without a truncation",
        _even,
        _offers(1, 1),
    ),
    "replica-differs": Plant(
        "records of a follower's log that are others than the leader's",
        lambda layout: layout.log_length * layout.partitions,
        _other_replica,
    ),
    "inconsistent-offset": Plant(
        "offsets at which two consumers were given different records",
        lambda layout: layout.log_length * layout.partitions // 2,
        _read_otherwise,
    ),
    "metadata-never-committed": Plant(
        "answers with a leader that was never committed", lambda _: 100_000, _never_committed
    ),
    "stale-controller-epoch-accepted": Plant(
        "requests of a past controller that a broker accepted", lambda _: 10_000, _accepted
    ),
}


def parse(text: str) -> dict[str, int]:
    """``acked-all-lost=3,replica-differs=2``; `HistoryError` names what is allowed."""
    found: dict[str, int] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, _, count = part.partition("=")
        if name not in PLANTS:
            raise HistoryError(f"--plant {name!r}; allowed: {', '.join(PLANTS)}")
        if not count.isdigit() or not int(count):
            raise HistoryError(f"--plant {part!r}; allowed: {name}=<a number from 1 on>")
        found[name] = int(count)
    return found
