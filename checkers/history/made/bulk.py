"""What grows with the load, as whole columns: no row is ever a Python object.

A partition's records are numbered by their offsets; everything else about one follows from its
number: its round, the time in it, the epoch and leader of then, who offered it. Even offsets are
offered with acks=all, odd ones with acks=1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from checkers.history.made.layout import (
    MOVE_NS,
    MS,
    NODES,
    OFFSET_NS,
    ROUND_NS,
    STILL_NS,
    TOLD_NS,
    TOPIC,
    Layout,
    S,
    Times,
)
from checkers.history.schema import arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa

PRODUCERS: Final = ("producer-all", "producer-one")
READS_A_ROUND: Final = 12
PROBES_A_ROUND: Final = 24
_BEFORE: Final = STILL_NS[0] - 50 * MS
_AFTER: Final = ROUND_NS - STILL_NS[1] - 50 * MS
Columns = Mapping[str, Any]


def table(kind: str, rows: int, columns: Columns) -> pa.Table:
    """Columns as arrays, or one value for all; those that are not named are null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    arrays = []
    for field in arrow_schema(kind):
        given = columns.get(field.name)
        if isinstance(given, pa.Array | pa.ChunkedArray):
            arrays.append(pc.cast(given, field.type))
        elif given is None:
            arrays.append(pa.nulls(rows, field.type))
        else:
            arrays.append(pa.repeat(pa.scalar(given, field.type), rows))
    return pa.table(arrays, schema=arrow_schema(kind))


class Records:
    """One partition's records of one trial: columns by number. ``numbers``: which of them (default:
    all, in order)."""

    def __init__(self, layout: Layout, times: Times, partition: int, numbers: Any = None) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        self.layout, self.partition = layout, partition
        self.offset = pa.arange(0, layout.log_length, 1) if numbers is None else numbers
        self.rows = len(self.offset)
        records = layout.records
        number = pc.divide(self.offset, records)  # of the round
        inside = pc.subtract(self.offset, pc.multiply(number, records))
        before = max(1, records // 8)  # of a round's records: before its moves
        early = pc.less(inside, before)
        self.since = pc.add(
            pc.if_else(
                early,
                pc.multiply(inside, _BEFORE // before),
                pc.add(
                    pc.multiply(pc.subtract(inside, before), _AFTER // (records - before)),
                    STILL_NS[1],
                ),
            ),
            partition * 1_000,
        )
        self.invoke_t = pc.add(pc.add(pc.multiply(number, ROUND_NS), self.since), times.chaos)
        self.epoch = pc.cast(
            pc.if_else(early, number, pc.min_element_wise(pc.add(number, 1), layout.rounds)),
            pa.int32(),
        )
        self.leader = pc.cast(pc.add(_parity(pc.add(self.epoch, partition)), 2), pa.int32())
        self.value = pc.add(self.offset, partition * layout.log_length)
        self.op = pc.add(pc.multiply(self.offset, layout.partitions), partition)
        # Each producer numbers its own, which are every other one.
        halved = pc.multiply(pc.divide(self.offset, 2), layout.partitions)
        self.own_op = pc.add(halved, partition)
        # Between 0.5 and 2.5 ms, by a number that looks like none.
        mixed = pc.bit_wise_and(pc.multiply(self.op, 2_654_435_761), 0x1FFFFF)
        self.t = pc.add(pc.add(self.invoke_t, 500_000), mixed)
        self.append_ms = pc.divide(pc.subtract(self.invoke_t, OFFSET_NS - 300_000), MS)
        self.is_odd = pc.equal(_parity(self.offset), 1)

    def produced(self, **other: Any) -> pa.Table:
        import pyarrow.compute as pc

        columns = {
            "t": self.t,
            "process": pc.if_else(self.is_odd, PRODUCERS[1], PRODUCERS[0]),
            "node": self.leader,
            "seq": pc.multiply(self.op, 2),  # what is planted comes in between
            "type": "ok",
            "op": self.own_op,
            "invoke_t": self.invoke_t,
            "error": 0,
            "topic": TOPIC,
            "partition": self.partition,
            "value": self.value,
            "acks": pc.if_else(self.is_odd, 1, -1),
            "offset": self.offset,
            "log_append_time_ms": self.append_ms,
            "leader_epoch": self.epoch,
        }
        return table("produce", self.rows, {**columns, **other})

    def fetched(self, **other: Any) -> pa.Table:
        import pyarrow.compute as pc

        columns = {
            "t": pc.add(self.t, 3 * MS),
            "process": "consumer",
            "seq": self.op,
            "type": "ok",
            "op": self.op,
            "invoke_t": self.invoke_t,
            "topic": TOPIC,
            "partition": self.partition,
            "poll": self.op,
            "offset": self.offset,
            "value": self.value,
            "whole": True,
            "leader_epoch": self.epoch,
        }
        return table("fetch", self.rows, {**columns, **other})

    def logged(self, node: int, begin: int, **other: Any) -> pa.Table:
        """The log of one replica, read from ``begin`` on, a record each microsecond."""
        import pyarrow.compute as pc

        columns = {
            "t": pc.add(pc.multiply(self.offset, 1_000), begin),
            "process": "final-read",
            "node": node,
            "topic": TOPIC,
            "partition": self.partition,
            "offset": self.offset,
            "value": self.value,
            "whole": True,
            "leader_epoch": self.epoch,
            "append_time_ms": self.append_ms,
            "producer_epoch": -1,
        }
        return table("log_read", self.rows, {**columns, **other})


def _parity(numbers: Any) -> Any:
    import pyarrow.compute as pc

    return pc.bit_wise_and(numbers, 1)


def _spread(count: int) -> list[int]:
    """Times into a round (ns) of as many things, a sixth of them before the moves."""
    before = count // 6
    early = [n * (_BEFORE // before) for n in range(before)]
    late = [STILL_NS[1] + n * (_AFTER // (count - before)) for n in range(count - before)]
    return early + late


def read_metadata(layout: Layout, times: Times) -> Iterator[pa.Table]:
    """Reads of each broker in turn. The answer of each broker right after the moves is behind."""
    import pyarrow as pa
    import pyarrow.compute as pc

    rounds = pa.arange(0, layout.rounds + 1, 1)
    within = [(t, n % len(NODES), False) for n, t in enumerate(_spread(READS_A_ROUND))]
    moved = MOVE_NS + layout.partitions * MS // 10
    within += [(moved + 4 * MS + n * 1_000, n, True) for n in range(len(NODES))]
    left_out = 0
    for number, (since, node, behind) in enumerate(sorted(within)):
        own = rounds.slice(0, layout.rounds) if behind else rounds
        early = since < STILL_NS[0] or behind
        epoch = own if early else pc.min_element_wise(pc.add(own, 1), layout.rounds)
        invoke_t = pc.add(pc.multiply(own, ROUND_NS), times.chaos + since)
        # After the last round no move is left to be behind.
        place = pc.if_else(pc.equal(own, layout.rounds), number - left_out, number)
        read = pc.add(pc.multiply(own, len(within)), place)
        left_out += behind
        for partition in range(layout.partitions):
            leader = pc.add(_parity(pc.add(epoch, partition)), 2)
            yield table(
                "metadata",
                len(own),
                {
                    "t": pc.add(invoke_t, 600_000),
                    "process": "metadata-reader",
                    "node": NODES[node],
                    "seq": pc.add(pc.multiply(read, layout.partitions), partition),
                    "type": "ok",
                    "op": read,
                    "invoke_t": invoke_t,
                    "error": 0,
                    "topic": TOPIC,
                    "partition": partition,
                    "read": read,
                    "leader": leader,
                    "leader_epoch": epoch,
                    "isr": list(NODES),
                    "controller_id": 1,
                },
            )


def reads(layout: Layout) -> int:
    """How often the reader asks in one trial."""
    return layout.rounds * len(NODES) + READS_A_ROUND * (layout.rounds + 1)


def stale_reads(layout: Layout) -> int:
    """How many answers of one trial are of a leader that was replaced before they were asked."""
    return layout.rounds * len(NODES) * layout.partitions


def probes(layout: Layout, times: Times, planes: str) -> Iterator[pa.Table]:
    """Each broker in turn; the flooded one of a single-plane arm takes 400 ms."""
    import pyarrow as pa
    import pyarrow.compute as pc

    rounds = pa.arange(0, layout.rounds + 1, 1)
    for number, since in enumerate(_spread(PROBES_A_ROUND)):
        node = NODES[number % len(NODES)]
        planned = pc.add(pc.multiply(rounds, ROUND_NS), times.chaos + since)
        slow = planes == "single" and node == 2 and 2 * S < since < 5 * S
        flooded = pc.less(rounds, layout.rounds)
        took = pc.if_else(pc.and_(flooded, slow), 400 * MS, 2 * MS)
        op = pc.add(pc.multiply(rounds, PROBES_A_ROUND), number)
        yield table(
            "probe",
            len(rounds),
            {
                "t": pc.add(planned, took),
                "process": "prober",
                "node": node,
                "seq": op,
                "type": "ok",
                "op": op,
                "invoke_t": planned,
                "planned_t": planned,
                "error": 0,
                "api": "UPDATE_METADATA" if number % 2 else "LEADER_AND_ISR",
                "plane": "control" if planes == "dual" else "data",
            },
        )


assert STILL_NS[1] > MOVE_NS + TOLD_NS
