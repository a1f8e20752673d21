"""When what happens in a made history, and how much of it.

A trial is a row of rounds, each 8 s. In a round broker 2 is flooded, and one second into it all
partitions change their leader between brokers 2 and 3. Clients keep still while leaders change (but
for one metadata read of each broker, which finds it behind), so that what every operation has to
find is known without being simulated. A last round without faults follows, then the final read.

    load   four rounds, whatever the number of rows: the load grows
    soak   as many rounds as it takes: faults, leaders, control requests and traces grow too
    wide   as many trials as it takes, of two rounds and many partitions
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from checkers.history.schema import HistoryError

S: Final = 1_000_000_000
MS: Final = 1_000_000
OFFSET_NS: Final = -1_790_000_000 * S
"""Monotonic minus wall clock."""
ROUND_NS: Final = 8 * S
MOVE_NS: Final = 1_100 * MS
"""Into a round: partition 0 is given its other leader; each further one 0.1 ms later."""
STILL_NS: Final = (1_000 * MS, 1_600 * MS)
"""Into a round: no client speaks."""
TOLD_NS: Final = 40 * MS
"""After the first of a round's commits: every broker shows all of them."""
SHAPES: Final = ("load", "soak", "wide")
ARMS: Final = {"dualplane-single": "single", "dualplane-dual": "dual"}
NODES: Final = (1, 2, 3)
CONTROLLER: Final = 1
TOPIC: Final = "made"
_ROWS_A_RECORD: Final = 5
"""It is offered, delivered, and read from three logs."""
_ROWS_A_ROUND: Final = 240
"""What a round costs besides, about; and by partition, `_ROWS_A_MOVE`."""
_ROWS_A_MOVE: Final = 16
_ROWS_A_TRIAL: Final = 150


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """``rounds``: with moves and floods; one more follows without. ``records``: of each partition
    in each round."""

    shape: str
    trials: int
    rounds: int
    partitions: int
    records: int

    @classmethod
    def of(cls, shape: str, rows: int) -> Layout:
        """About ``rows`` rows in two arms. `HistoryError` when they are too few, or the shape is
        none."""
        if shape not in SHAPES:
            raise HistoryError(f"--shape {shape!r}; allowed: {', '.join(SHAPES)}")
        small = rows < 100_000
        trials, rounds, partitions = 1, 2 if small else 4, 2 if small else 8
        if shape == "soak":
            a_round = _round_rows(partitions, 100 if small else 250)
            rounds = max(2, round(rows / 2 / a_round) - 1)
        elif shape == "wide":
            rounds, partitions = 1, 4 if small else 32
            trials = max(2, round(rows / 2 / (20_000 if small else 100_000)))
        rows_a_round = (rows / 2 / trials - _ROWS_A_TRIAL) / (rounds + 1)
        besides = _round_rows(partitions, 0)
        records = int((rows_a_round - besides) / partitions / _ROWS_A_RECORD)
        if records < FEWEST:
            least = 2 * trials * (_round_rows(partitions, FEWEST) + 1) * (rounds + 1)
            least += 2 * trials * _ROWS_A_TRIAL
            raise HistoryError(f"--rows {rows}; allowed for shape {shape}: at least {least}")
        return cls(
            shape=shape, trials=trials, rounds=rounds, partitions=partitions, records=records
        )

    @property
    def log_length(self) -> int:
        """Records of one partition in one trial."""
        return self.records * (self.rounds + 1)

    @property
    def trial_ns(self) -> int:
        """From one trial's beginning to the next one's."""
        read_ns = self.log_length * self.partitions * len(NODES) * 1_000
        return 40 * S + self.rounds * ROUND_NS + ROUND_NS + read_ns


FEWEST: Final = 16


def _round_rows(partitions: int, records: int) -> int:
    reads = 12 * partitions
    return partitions * (records * _ROWS_A_RECORD + _ROWS_A_MOVE) + _ROWS_A_ROUND // 2 + reads


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """The milestones of one trial (ns)."""

    begin: int
    rounds: int

    @property
    def chaos(self) -> int:
        return self.begin + 4 * S

    @property
    def heal(self) -> int:
        return self.chaos + self.rounds * ROUND_NS

    @property
    def load_end(self) -> int:
        return self.heal + ROUND_NS

    @property
    def final_read(self) -> int:
        return self.load_end + 2 * S

    def round(self, number: int) -> int:
        return self.chaos + number * ROUND_NS

    def move(self, number: int, partition: int) -> int:
        """When the round's new leader of a partition is committed."""
        return self.round(number) + MOVE_NS + partition * MS // 10


def leader(partition: int, leader_epoch: int) -> int:
    return 2 + (partition + leader_epoch) % 2


def wall_ms(t: int) -> int:
    return (t - OFFSET_NS) // MS
