"""Whether a cluster has come to rest, and what of it has not: asked past every proxy.

At rest: every node runs, is registered and answers; every partition is led, its in-sync set full,
and by its preferred leader where the controller brings that about by itself; no deletion and no
reassignment is under way; no log lies about that is of a deleted topic, or on a broker that is no
replica of it any more, and no settings of one. What a reading found becomes rows of kind
``final_state``, judged by the promise `recovery`; a reading that waited in vain says of each lack
for how long it was there without a break (``lasting_ns``), and of a replica that is out of sync
where its log ended then and now: one that moves is only slow.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from faults.protocol import Capability, Link, PartitionState
from harness.cluster.ask import NoAnswer, cluster_idea
from harness.cluster.errors import StateUnreadable
from harness.cluster.final_read import log_ends

if TYPE_CHECKING:
    from harness.cluster.cluster import Cluster

PROCESS: Final = "final-state"
_POLL_S: Final = 0.1
_ASK_TIMEOUT_S: Final = 2.0
_LOG_FOLDER: Final = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)")
"""A live log's folder. Kafka renames one that is to be deleted (``T-0.<uuid>-delete``) at once."""
Row = dict[str, Any]
Key = tuple[Any, ...]


def key_of(row: Mapping[str, Any]) -> Key:
    return (row["what"], row.get("node"), row.get("topic"), row.get("partition"))


def is_lack(row: Mapping[str, Any]) -> bool:
    """Whether what the row tells of has not come to rest."""
    match row["what"]:
        case "node":
            return not (row["running"] and row["registered"] and row["answers"])
        case "partition":
            whole = row["leader"] >= 0 and set(row["isr"]) == set(row["replicas"])
            return not whole or (row["gives_back"] and row["leader"] != row["replicas"][0])
        case "replica":
            return False
    return True


class Rest:
    """Readings of one cluster, one after the other. Owned by one thread."""

    def __init__(self, cluster: Cluster, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._cluster = cluster
        self._now_ns = now_ns
        self._since: dict[Key, int] = {}
        self._ends: dict[Key, int] = {}
        """Where the log of a replica that is out of sync ended when that was seen first."""
        self.rows: list[Row] = []
        """The last reading."""

    @property
    def lacking(self) -> list[Row]:
        return [row for row in self.rows if is_lack(row)]

    def read(self) -> bool:
        """Read anew; whether all is at rest."""
        try:
            self.rows = self._read()
        except StateUnreadable as error:
            self.rows = [{"what": "unread", "failure": str(error)}]
        now = self._now_ns()
        lacks = {key_of(row): row for row in self.lacking}
        self._since = {key: self._since.get(key, now) for key in lacks}
        for key, row in lacks.items():
            row["lasting_ns"] = now - self._since[key]
        self._follow_replicas(lacks.values())
        return not lacks

    @property
    def hopeless(self) -> bool:
        """Whether all that lacks is brokers that ended by themselves, and places in in-sync sets
        that only those could take, after the others have noticed: nobody starts them any more."""
        gone = set(filter(self._cluster.nodes.has_deserted, self._cluster.node_ids))
        return bool(gone) and all(_wants_only(row, gone) for row in self.rows)

    def wait(
        self, timeout_s: Callable[[], float], stopped: Callable[[], bool] = lambda: False
    ) -> bool:
        """Read until all is at rest, the time is over (asked for anew each time: how long is long
        may turn out on the way), or there is nothing to be hoped for; returns whether all is at
        rest."""
        begun = self._now_ns()
        while not self.read():
            over = self._now_ns() - begun > timeout_s() * 1e9
            if over or stopped() or self.hopeless:
                return False
            time.sleep(_POLL_S)
        return True

    def record(self) -> None:
        """Write the last reading into the history."""
        for row in self.rows:
            self._cluster.record("final_state", process=PROCESS, **row)

    # -- one reading ----------------------------------------------------------------------------

    def _read(self) -> list[Row]:
        cluster = self._cluster
        view = cluster.view
        registered = set(view.live_brokers())
        partitions = view.partitions()
        rows = [_partition(state, cluster.gives_leaders_back) for state in partitions]
        rows += [{"what": what, "topic": topic} for what, topic in view.pending()]
        rows += [self._node(node, node in registered) for node in cluster.node_ids]
        if Capability.LOG_FILES in cluster.capabilities:
            rows += self._left_behind({(s.topic, s.partition): s.replicas for s in partitions})
        return rows

    def _node(self, node: int, registered: bool) -> Row:
        running = self._cluster.nodes.is_running(node)
        row = {"what": "node", "node": node, "running": running, "registered": registered}
        if not running:
            return {**row, "answers": False}
        try:
            cluster_idea(self._cluster.address(node, Link.CLIENT, direct=True), _ASK_TIMEOUT_S)
        except NoAnswer as error:
            return {**row, "answers": False, "failure": str(error)}
        return {**row, "answers": True}

    def _left_behind(self, replicas: Mapping[tuple[str, int], Sequence[int]]) -> Iterable[Row]:
        topics = {topic for topic, _ in replicas}
        for node in self._cluster.node_ids:
            try:
                names = sorted(p.name for p in Path(self._cluster.nodes.log_dir(node)).iterdir())
            except OSError:
                continue  # not there (yet), or not to be read from here
            for name in names:
                match = _LOG_FOLDER.fullmatch(name)
                if match is None or name.startswith("__"):
                    continue
                topic, partition = match["topic"], int(match["partition"])
                if not self._cluster.owns(topic):
                    continue
                moved = node not in replicas.get((topic, partition), (node,))
                if moved or topic not in topics:
                    yield {
                        "what": "leftover",
                        "node": node,
                        "topic": topic,
                        "partition": partition,
                    }

    def _follow_replicas(self, lacks: Iterable[Row]) -> None:
        """Where the logs of partitions with a lack end. Asked of the nodes, who may not answer."""
        wanted: dict[int, list[tuple[str, int]]] = {}
        for row in lacks:
            if row["what"] == "partition":
                for node in row["replicas"]:
                    if self._cluster.nodes.is_running(node):
                        wanted.setdefault(node, []).append((row["topic"], row["partition"]))
        now: dict[Key, int] = {}
        for node, keys in wanted.items():
            ends = log_ends(self._cluster, node, keys, _ASK_TIMEOUT_S)
            now |= {("replica", node, *key): end for key, end in ends.items()}
        self._ends = {key: self._ends.get(key, end) for key, end in now.items()}
        self.rows += [
            {
                "what": "replica",
                "node": key[1],
                "topic": key[2],
                "partition": key[3],
                "log_end_offset": end,
                "earlier_end_offset": self._ends[key],
            }
            for key, end in sorted(now.items())
        ]


def _wants_only(row: Row, gone: set[int]) -> bool:
    """Whether that row tells of no other lack than what those who are gone took with them."""
    match row["what"]:
        case "node":
            return not is_lack(row) or (row["node"] in gone and not row["registered"])
        case "partition":
            out = set(row["replicas"]) - set(row["isr"])
            return row["leader"] >= 0 and row["leader"] not in gone and out <= gone
    return not is_lack(row)


def _partition(state: PartitionState, gives_back: bool) -> Row:
    return {
        "what": "partition",
        "topic": state.topic,
        "partition": state.partition,
        "leader": state.leader,
        "leader_epoch": state.leader_epoch,
        "isr": list(state.isr),
        "replicas": list(state.replicas),
        "gives_back": gives_back,
    }


def says(row: Mapping[str, Any]) -> str:
    """A lack in a few words."""
    match row["what"]:
        case "partition":
            name, replicas = f"{row['topic']}-{row['partition']}", row["replicas"]
            return f"{name}: in sync {row['isr']} of {replicas}, led by {row['leader']}"
        case "node":
            return f"node {row['node']} does not run, is not registered, or does not answer"
        case "leftover":
            return f"node {row['node']} still has {row['topic']}-{row['partition']}"
        case "settings":
            return f"the settings of {row['topic']} are there, and it is not"
        case "unread":
            return f"the state cannot be read: {row['failure']}"
    return f"the {row['what']} of {row['topic']} is under way"


def in_words(rows: Sequence[Mapping[str, Any]], most: int = 3) -> str:
    """For progress and errors."""
    shown = "; ".join(says(row) for row in rows[:most])
    return shown + (f"; and {len(rows) - most} more" if len(rows) > most else "")
