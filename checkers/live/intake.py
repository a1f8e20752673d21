"""Rows of one trial on their way to the rules: held back until whatever could excuse them is known.

Clients and the harness write what they gathered every 20 ms, nodes at once. A row is let through
when it is `HOLD_NS` old; and clients' files are read before those of the harness and the nodes, so
that what had happened before a client wrote is known with it. What can only silence a finding (a
broker's death, a forgery, a partition that was stopped, a topic that was deleted) counts from the
moment it is read.
"""

from __future__ import annotations

import json
from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from checkers.facts.forgeries import SEEN_LIES, accepted
from checkers.facts.lives import ENDS

HOLD_NS: Final = 1_000_000_000
Row = dict[str, Any]
At = tuple[str, int]
Replica = tuple[int, str, int]
"""Node, topic, partition."""

JUDGED: Final = frozenset(
    {"metadata", "control_request", "forged", "leader_change", "leadership", "produce", "fetch",
     "assignment", "probe"}
)  # fmt: skip
_SMALL: Final = frozenset({"leadership", "leader_change", "forged", "node_event"})
"""Kinds that do not grow with the load: all of them are kept."""
_FORGER: Final = "forged"
_UNSAID: Final = {"error": None, "partition_error": None, "lie": None}
_OVER: Final = frozenset({"healed", "failed"})
"""Phases of a fault after which nothing comes of it."""


@dataclass(slots=True)
class Silenced:
    """What nobody is accused of."""

    topics: set[str] = field(default_factory=set)
    """Deleted, or made again: epochs begin anew, and when it was asked for is told in the end."""
    incarnations: dict[At, str] = field(default_factory=dict)
    stopped: dict[Replica, set[int]] = field(default_factory=dict)
    """When (ns) a replica was stopped, by its broker's word. Whether somebody had asked for that is
    judged in the end. A broker tells of it before it tells of what it took afterwards."""
    lied: set[Replica] = field(default_factory=set)
    """Of which a forger told that broker something it may believe."""
    forged: set[At] = field(default_factory=set)
    """Whose replicas a forger may have moved."""
    unheard: set[At] = field(default_factory=set)
    """Those for which that hangs on what their broker had been told: `epochs` judges that in the
    end."""
    torn: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By fault that cuts logs: what it says of itself."""
    unclean: bool = False
    """Who is elected may lack anything: the brokers allow that."""

    def loss(self, at: At, offset: int) -> bool:
        """Whether a record there may have gone lawfully."""
        if self.unclean or at[0] in self.topics or at in self.forged:
            return True
        return any(_covers(detail, f"{at[0]}-{at[1]}", offset) for detail in self.torn.values())


def _covers(detail: Mapping[str, Any], partition: str, offset: int) -> bool:
    """As `checkers.judging.excuses` has it, whoever was in sync besides."""
    if detail.get("mode", "cut") != "cut" or detail.get("partition") not in (None, partition):
        return False
    high = detail.get("next_offset")
    return detail.get("from_offset", 0) <= offset and (high is None or offset < high)


class Intake:
    """Owned by one thread. ``let_through``: rows by kind that are certain now; ``small``: all rows
    of the kinds that stay."""

    def __init__(self, arm: str, trial: int, *, unclean: bool = False) -> None:
        self.arm, self.trial = arm, trial
        self.small: dict[str, list[Row]] = {kind: [] for kind in _SMALL}
        self.silenced = Silenced(unclean=unclean)
        self.forging: set[str] = set()
        """Faults at work whose requests may be believed, and answered late: see `Watch`."""
        self.died: dict[int, list[int]] = defaultdict(list)
        """By node: when its lives end and begin, ascending."""
        self._held: list[Row] = []
        self._heard: dict[int, list[tuple[int, int]]] = defaultdict(list)
        """By node: when (ns) it accepted which controller epoch, but for the same one again."""
        self._obeyed: list[Row] = []
        """Forged requests with a stale epoch that were accepted, until they are weighed."""

    def take(self, row: Row) -> None:
        kind = row["f"]
        if kind in JUDGED and row.get("type") != "invoke":
            self._held.append(row)
        if kind == "node_event":
            self.small[kind].append(self._placed(row))
            if row.get("event") in ENDS and row.get("node") is not None:
                insort(self.died[row["node"]], row["t"])
        if kind == "fault" and _FORGER in (row.get("fault") or ""):
            if row.get("phase") in _OVER:
                self.forging.discard(row.get("id") or "")
            else:
                self.forging.add(row.get("id") or "")
        self._silence(row)

    def let_through(self, horizon_t: int) -> dict[str, list[Row]]:
        """Rows up to that time (ns), by kind; with arm and trial."""
        found: dict[str, list[Row]] = defaultdict(list)
        kept = []
        for row in self._held:
            if row["t"] > horizon_t:
                kept.append(row)
                continue
            placed = self._placed(row)
            found[row["f"]].append(placed)
            if row["f"] in _SMALL:
                self.small[row["f"]].append(placed)
        self._held = kept
        return found

    def _placed(self, row: Row) -> Row:
        return {**row, "arm": self.arm, "trial": self.trial}

    def _hear(self, node: int, t: int, epoch: int) -> None:
        heard, life = self._heard[node], self._life(node, t)
        if not heard or heard[-1][1] != epoch or self._life(node, heard[-1][0]) != life:
            heard.append((t, epoch))

    def _life(self, node: int, t: int) -> int:
        """Which of its lives, or of the times between them."""
        return bisect_right(self.died[node], t)

    def weigh(self) -> None:
        """Once no forger is at work: what came to a broker before it was told of something newer,
        or where nobody says that it was, is believed like any other lie."""
        for row in self._obeyed:
            if not self._had_heard(row):
                at = (row["topic"], row["partition"])
                self._believe(row, at)
                self.silenced.unheard.add(at)
        self._obeyed.clear()

    def _had_heard(self, row: Row) -> bool:
        node, life = row["node"], self._life(row["node"], row["invoke_t"])
        if row["lie"] == "stale_controller_epoch":
            epoch, told = row["controller_epoch"], self._heard[node]
        else:
            epoch = row["leader_epoch"]
            told = [
                (of["t"], of["leader_epoch"] or 0)
                for of in self.small["leader_change"]
                if all(of[name] == row[name] for name in ("node", "topic", "partition"))
            ]
        before = (newer for t, newer in told if t < row["invoke_t"] and self._life(node, t) == life)
        return any(newer > epoch for newer in before)

    def _believe(self, row: Mapping[str, Any], at: At) -> None:
        self.silenced.lied.add((row["node"], *at))
        if row.get("api") in ("LEADER_AND_ISR", "STOP_REPLICA"):
            self.silenced.forged.add(at)

    def _silence(self, row: Mapping[str, Any]) -> None:
        kind, t, quiet = row["f"], row["t"], self.silenced
        if kind == "control_request" and row.get("error") == 0:
            self._hear(row["node"], t, row.get("controller_epoch") or 0)
        topic: Any = row.get("topic")
        partition: Any = row.get("partition")
        if kind == "leadership" and row.get("incarnation") is not None:
            first = quiet.incarnations.setdefault((topic, partition), row["incarnation"])
            if first != row["incarnation"]:
                quiet.topics.add(topic)
        elif kind == "topic_deletion":
            quiet.topics.add(topic)
        elif kind == "replica_stop":
            place = (row.get("node") or 0, topic, partition)
            quiet.stopped.setdefault(place, set()).add(t + (row.get("error_ns") or 0))
            if row.get("delete"):
                quiet.topics.add(topic)
        elif kind == "control_request" and row.get("api") == "STOP_REPLICA":
            for part in row.get("partitions") or ():
                leader_epoch = part.get("leader_epoch")
                of_any = leader_epoch is None or leader_epoch < 0
                if of_any and row.get("error") == part.get("error") == 0:
                    place = (row["node"], part["topic"], part["partition"])
                    quiet.stopped.setdefault(place, set()).add(t)
        elif kind == "forged" and topic is not None:
            self._forged({**_UNSAID, **row}, (topic, partition))
        elif kind == "fault" and "torn" in f"{row.get('fault')}{row.get('detail')}":
            name = row.get("id") or row.get("fault") or "?"
            quiet.torn.setdefault(name, {}).update(json.loads(row.get("detail") or "{}"))

    def _forged(self, row: Row, at: At) -> None:
        if not accepted(row) or row["lie"] == "stale_broker_epoch":  # its own it knows
            return
        if row["lie"] in SEEN_LIES:
            self._obeyed.append(row)
        else:
            self._believe(row, at)
