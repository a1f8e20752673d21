"""What one live file holds, and what of it is missing: counted line by line while it is finished;
and how many rows were stored of it.

Every writer numbers its rows (``seq``, from 0; a node anew in each boot). A number that no row has
was said and lost. Counted here, where every line passes, because finishing drops invocations that
were completed. Constant memory: what is missing follows from how many rows there are and from the
highest number; the numbers' sum tells whether one is there twice in the place of another.

The clock: rows in the order of their numbers, as they were written. ``t`` may lie a little before
that of the row before it (threads overtake each other; a row may tell when something ended that
was noted late), but not by seconds. Rows that were taken from a log afterwards are left out.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

_TOLD_AFTERWARDS: Final = frozenset({"leadership", "topic_deletion"})
"""ZooKeeper's own log may tell of these at the end of a run, with the times of then."""
_REASONS: Final = 5
Row = Mapping[str, Any]


@dataclass(slots=True)
class Account:
    """One writer's rows in one file: of a node's file, one boot's."""

    process: str
    node: int | None = None
    boot: int | None = None
    rows: int = 0
    numbered: int = 0
    last_seq: int = -1
    seq_sum: int = 0
    first_t: int | None = None
    last_t: int | None = None
    backwards_ns: int = 0
    closed: bool = False

    def add(self, row: Row) -> None:
        self.rows += 1
        seq = row.get("seq")
        if isinstance(seq, int):
            self.numbered += 1
            self.seq_sum += seq
            self.last_seq = max(self.last_seq, seq)
        t = row.get("t")
        told_now = row.get("f") not in _TOLD_AFTERWARDS and row.get("error_ns") is None
        if isinstance(t, int) and told_now:
            if self.last_t is not None:
                self.backwards_ns = max(self.backwards_ns, self.last_t - t)
            self.first_t = t if self.first_t is None else min(self.first_t, t)
            self.last_t = t if self.last_t is None else max(self.last_t, t)
        if row.get("f") == "source":
            self.closed = True

    @property
    def missing(self) -> int:
        return max(0, self.last_seq + 1 - self.numbered)

    @property
    def repeated(self) -> int:
        """At least 1 when as many rows as numbers are not each number once."""
        count = self.last_seq + 1
        if self.numbered != count:
            return max(0, self.numbered - count)
        return int(self.seq_sum != count * (count - 1) // 2)


@dataclass(slots=True)
class SourceAccount:
    """One live file. ``rejected`` and ``torn`` lines belong to the file: whose they are is not
    known."""

    source: str
    accounts: dict[int | None, Account] = field(default_factory=dict)
    reasons: Counter[str] = field(default_factory=Counter)
    torn: int = 0
    orphans: int = 0
    stored: dict[str, Counter[str]] = field(default_factory=dict)
    """By kind and process, how many rows of the file went into the history."""

    def keep(self, kind: str, processes: Iterable[str]) -> None:
        """Rows of a kind, by who wrote them, were stored."""
        self.stored.setdefault(kind, Counter()).update(processes)

    def add(self, row: Row) -> None:
        """Take in a line that is an object, whether or not it fits the schema."""
        process, node = str(row.get("process")), row.get("node")
        own = isinstance(node, int) and process == f"node-{node}"
        boot = row.get("boot") if own else None
        known = self.accounts.get(boot)
        if known is None:
            known = self.accounts[boot] = Account(
                process if own else self.source, node if own else None, boot
            )
        known.add(row)

    def to_rows(self, end_t: int) -> Iterator[dict[str, Any]]:
        """Rows of kind ``source``; a file without a readable line has one, too."""
        accounts = sorted(self.accounts.values(), key=lambda a: a.boot or 0)
        for number, each in enumerate(accounts or [Account(self.source)]):
            of_file = number == 0
            yield {
                "f": "source",
                "t": end_t if each.last_t is None else each.last_t,
                "process": each.process,
                "node": each.node,
                "boot": each.boot,
                "source": self.source,
                "rows": each.rows,
                "unnumbered": each.rows - each.numbered,
                "last_seq": each.last_seq if each.numbered else None,
                "missing": each.missing,
                "repeated": each.repeated,
                "rejected": self.reasons.total() if of_file else 0,
                "torn": self.torn if of_file else 0,
                "orphans": self.orphans if of_file else 0,
                "first_t": each.first_t,
                "backwards_ns": each.backwards_ns,
                "reasons": json.dumps(dict(self.reasons.most_common(_REASONS)))
                if of_file
                else None,
                "closed": each.closed,
                "stored": json.dumps(self.stored) if of_file else None,
            }
