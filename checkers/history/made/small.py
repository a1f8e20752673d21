"""What grows with rounds and trials, as plain rows: leaders, control requests, faults, phases, a
topic that is deleted, a consumer group, the state in the end, and the accounts of all live files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from checkers.history.made.bulk import PROBES_A_ROUND, PRODUCERS, READS_A_ROUND
from checkers.history.made.layout import (
    CONTROLLER,
    MOVE_NS,
    MS,
    NODES,
    ROUND_NS,
    TOPIC,
    Layout,
    S,
    Times,
    leader,
    wall_ms,
)

Row = dict[str, Any]
FLOODED: Final = 500
"""So many requests of a flood are answered in half a second."""
GONE: Final = "gone"
GROUPED: Final = "grouped"
GROUP_RECORDS: Final = 6
"""In each round, in the one partition of the group's topic."""
_ERROR_NS: Final = 1_000_000


class Small:
    """One trial's plain rows, by kind."""

    def __init__(self, layout: Layout, times: Times, planes: str) -> None:
        self.layout, self.times, self.planes = layout, times, planes
        self.plane = "control" if planes == "dual" else "data"
        self.rows: dict[str, list[Row]] = {}
        self._zxid = 0
        self._correlation = dict.fromkeys(NODES, 0)
        self._born: dict[int, int] = {}
        """Broker epochs."""
        self._made: dict[tuple[str, int], int] = {}
        """By which write each partition's state was made."""
        self._phases()
        self._begin()
        for number in range(layout.rounds):
            self._faults(number)
            self._moves(number)
            self._queues(number)
        self._deletion()
        self._group()
        self._plane_use()
        self._end()
        self._number()
        self._sources()

    def _number(self) -> None:
        """Each writer's rows in the order in which it would have written them. (Records of logs
        have no number: most are made elsewhere, `checkers.history.made.bulk`.)"""
        by: dict[str, list[Row]] = {}
        for kind, rows in self.rows.items():
            for row in rows if kind != "log_read" else ():
                by.setdefault(row["process"], []).append(row)
        for rows in by.values():
            for number, row in enumerate(sorted(rows, key=lambda row: row["t"])):
                row["seq"] = number

    def add(self, kind: str, t: int, process: str, **fields: Any) -> None:
        row = {"t": t, "process": process, **fields}
        self.rows.setdefault(kind, []).append(row)

    def zk(self, t: int, what: str, step: str, *, same: bool = False, **fields: Any) -> None:
        """``same``: in the transaction of the row before."""
        self._zxid += 0 if same else 1
        self.add(
            "zk_write", t, "zk-log", zxid=self._zxid, what=what, step=step, error_ns=_ERROR_NS,
            commit_ms=wall_ms(t), **fields,
        )  # fmt: skip

    # -- the course of a trial --------------------------------------------------------------------

    def _phases(self) -> None:
        t = self.times
        for name, begin, end in (
            ("start", t.begin, t.begin + 3 * S),
            ("warmup", t.begin + 3 * S, t.chaos),
            ("chaos", t.chaos, t.heal),
            ("heal", t.heal, t.heal + 100 * MS),
            ("quiesce", t.heal + 100 * MS, t.heal + S),
            ("settle", t.heal + S, t.load_end),
            ("final_read", t.load_end + S, self.read_end + 4 * MS),
        ):
            self.add("phase", begin, "harness", name=name, event="begin")
            self.add("phase", end, "harness", name=name, event="end")

    @property
    def read_end(self) -> int:
        length = self.layout.log_length * self.layout.partitions * len(NODES)
        return self.times.final_read + (length + 100_000) * 1_000

    def _begin(self) -> None:
        begin = self.times.begin
        self.zk(begin + S // 2, "controller_epoch", "created", controller_epoch=0)
        for node in NODES:
            own = {"node": node, "boot": 1}
            self.add("node_event", begin + node * MS, "harness", event="start", detail="{}", **own)
            self.zk(begin + S + node * MS, "broker", "created", node=node)
            self.zk(begin + S + node * MS, "broker", "set", node=node, same=True)
            self._born[node] = self._zxid
            detail = json.dumps({"broker_epoch": self._zxid})
            self.add(
                "node_event", begin + S + (node + 1) * MS, "zk-watch", node=node,
                event="registered", detail=detail,
            )  # fmt: skip
            ready = begin + S + 100 * MS
            self.add("node_event", ready, "harness", event="ready", detail="{}", **own)
        elected = begin + S + 10 * MS
        self.zk(elected, "controller", "created", node=CONTROLLER)
        self.zk(elected, "controller_epoch", "set", controller_epoch=1, same=True)
        self.add(
            "controller", elected + 2 * MS, f"node-{CONTROLLER}", node=CONTROLLER, boot=1,
            event="elected", controller_epoch=1,
        )  # fmt: skip
        for to in NODES:
            link = "control" if self.planes == "dual" else "inter-broker"
            self.add(
                "connection", begin + 2 * S, "sockets", node=CONTROLLER, to=to, link=link,
                connections=1,
            )  # fmt: skip
        topics = {TOPIC: self.layout.partitions, GONE: 1, GROUPED: 1}
        made = begin + 2 * S
        for topic, partitions in topics.items():
            for partition in range(partitions):
                same = partition > 0
                self.zk(
                    made, "topic", "created", topic=topic, partition=partition,
                    replicas=self._replicas(topic, partition), same=same,
                )  # fmt: skip
        places = [(topic, p) for topic, n in topics.items() for p in range(n)]
        for topic, partition in places:
            self._commit(made + 10 * MS, topic, partition, 0, created=True)
        self._tell(made + 20 * MS, [(*place, 0) for place in places])

    def _replicas(self, topic: str, partition: int, epoch: int = 0) -> list[int]:
        first = leader(partition, epoch)
        return [first, *(n for n in NODES if n != first)]

    def _commit(
        self, t: int, topic: str, partition: int, epoch: int, *, created: bool = False
    ) -> None:
        state: Row = {
            "topic": topic, "partition": partition, "leader": leader(partition, epoch),
            "leader_epoch": epoch, "controller_epoch": 1, "partition_epoch": epoch,
            "isr": list(NODES),
        }  # fmt: skip
        self.zk(t, "state", "created" if created else "set", **state)
        if created:
            self._made[topic, partition] = self._zxid
        stored = {"commit_ms": wall_ms(t), "incarnation": str(self._made[topic, partition])}
        self.add("leadership", t + 2 * MS, "zk-watch", source="zk", **state, **stored)
        self.add(
            "leadership", t + 2 * MS, f"node-{CONTROLLER}", node=CONTROLLER, boot=1,
            source="controller", **state,
        )  # fmt: skip

    def _moves(self, number: int) -> None:
        epoch = number + 1
        partitions = range(self.layout.partitions)
        for partition in partitions:  # whoever is to lead comes first now
            self.zk(
                self.times.move(number, 0) - 10 * MS, "topic", "set", topic=TOPIC,
                partition=partition, same=partition > 0,
                replicas=self._replicas(TOPIC, partition, epoch),
            )  # fmt: skip
        for partition in partitions:
            self._commit(self.times.move(number, partition), TOPIC, partition, epoch)
        done = self.times.move(number, len(partitions))
        self._tell(done + 8 * MS, [(TOPIC, p, epoch) for p in partitions])

    def _tell(self, t: int, places: list[tuple[str, int, int]]) -> None:
        """LeaderAndIsr handled 4 ms after ``t``, UpdateMetadata 8 ms."""
        states = [
            {"topic": topic, "partition": p, "leader": leader(p, e), "leader_epoch": e}
            for topic, p, e in places
        ]
        for node in NODES:
            for api, sent in (("LEADER_AND_ISR", t), ("UPDATE_METADATA", t + 4 * MS)):
                handled = sent + 3 * MS + node * 100_000
                number = self._request(node, api, sent, handled, states)
                for (topic, p, e), state in zip(places, states, strict=True):
                    own: Row = {"node": node, "boot": 1, "controller_epoch": 1, **state}
                    own |= {"correlation_id": number}
                    process = f"node-{node}"
                    if api == "UPDATE_METADATA":
                        self.add("metadata_update", handled - 5_000, process, **own)
                        continue
                    end = self._length(topic, e)
                    role = "leader" if leader(p, e) == node else "follower"
                    self.add(
                        "leader_change", handled - 5_000, process, role=role,
                        log_end_offset=end, high_watermark=end, **own,
                    )  # fmt: skip

    def _queues(self, number: int) -> None:
        """What the controller's metrics say when everything was told: each request stayed 1 ms."""
        t = self.times.round(number) + 3 * S
        for to in NODES:
            self.add(
                "channel_queue", t, "metrics-reader", node=CONTROLLER, boot=1, to=to,
                from_t=t - MS, size=0, taken=self._correlation[to], queue_time_p99_us=1_000,
                queue_time_max_us=1_000,
            )  # fmt: skip

    def _length(self, topic: str, epoch: int) -> int:
        """Of a log when that leader epoch began."""
        if topic != TOPIC or epoch == 0:
            return 0
        return (epoch - 1) * self.layout.records + max(1, self.layout.records // 8)

    def _request(self, to: int, api: str, sent: int, handled: int, states: list[Row]) -> int:
        number = self._correlation[to]
        self._correlation[to] += 1
        same = {"api": api, "correlation_id": number}
        mine = {"node": CONTROLLER, "boot": 1, "to": to}
        self.add(
            "control_send", sent, f"node-{CONTROLLER}", controller_epoch=1,
            broker_epoch=self._born[to], enqueue_t=sent - MS, attempt=1, partitions=states,
            **mine, **same,
        )  # fmt: skip
        self.add(
            "control_request", handled + 100_000, f"node-{to}", node=to, boot=1, version=7,
            client_id=str(CONTROLLER), plane=self.plane,
            listener=self._listener, controller_id=CONTROLLER, controller_epoch=1,
            broker_epoch=self._born[to],
            own_broker_epoch=self._born[to], receive_t=sent + MS, enqueue_t=sent + MS + 50_000,
            dequeue_t=sent + 2 * MS, handled_t=handled, error=0,
            partitions=[{**state, "error": 0} for state in states], **same,
        )  # fmt: skip
        self.add(
            "control_response", handled + 300_000, f"node-{CONTROLLER}", send_t=sent, error=0,
            **mine, **same,
        )  # fmt: skip
        return number

    def _faults(self, number: int) -> None:
        begin = self.times.round(number)
        self._fault(f"flood-{number}", "flood-heavy-produce", [2], begin + 200 * MS,
                    begin + 400 * MS, begin + 6 * S, {"connections": {"2": 640}})  # fmt: skip
        for tick in range(1, 13):
            at = begin + 400 * MS + tick * S // 2 - MS
            if at < begin + 6 * S:
                self.add(
                    "flood", at, f"flood-{number}-2", node=2, id=f"flood-{number}",
                    interval_ns=S // 2, connections=640, sent=FLOODED, completed=FLOODED, errors=0,
                    bytes=50_000_000, latency_max_ns=400 * MS,
                )  # fmt: skip
        self._fault(f"move-{number}", "move-leadership", [2, 3], begin + S, begin + S + 300 * MS,
                    begin + S + 301 * MS, {})  # fmt: skip

    def _fault(
        self,
        name: str,
        fault: str,
        nodes: list[int],
        begin: int,
        placed: int,
        end: int,
        detail: Row,
    ) -> None:
        for phase, t, held in (
            ("inject", begin, None),
            ("injected", placed, True),
            ("heal", end, None),
            ("healed", end + 10 * MS, True),
        ):
            self.add(
                "fault", t, "harness", fault=fault, id=name, phase=phase, nodes=nodes,
                took_hold=held, detail=json.dumps(detail),
            )  # fmt: skip

    def planned(self) -> Iterator[Row]:
        for number in range(self.layout.rounds):
            at_ms = number * ROUND_NS // MS
            yield {"id": f"flood-{number}", "fault": "flood-heavy-produce", "at_ms": at_ms + 400,
                   "duration_ms": 5_600}  # fmt: skip
            yield {"id": f"move-{number}", "fault": "move-leadership",
                   "at_ms": at_ms + MOVE_NS // MS, "duration_ms": 0}  # fmt: skip

    # -- beside the load --------------------------------------------------------------------------

    def _deletion(self) -> None:
        t = self.times.heal - S
        stored = {"topic": GONE, "error_ns": _ERROR_NS}
        self.add("topic_deletion", t, "zk-log", step="requested", commit_ms=wall_ms(t), **stored)
        for node in NODES:
            handled = t + 10 * MS + node * 100_000
            place = {"topic": GONE, "partition": 0, "leader_epoch": 0}
            state = {**place, "leader": -2}
            number = self._request(node, "STOP_REPLICA", t + 7 * MS, handled, [state])
            self.add(
                "replica_stop", handled - 5_000, f"node-{node}", node=node, boot=1,
                controller_epoch=1, correlation_id=number, delete=True, **place,
            )  # fmt: skip
        self.zk(t + 30 * MS, "state", "removed", topic=GONE, partition=0)
        self.zk(t + 40 * MS, "topic", "removed", topic=GONE)
        self.add(
            "topic_deletion", t + 40 * MS, "zk-log", step="gone", commit_ms=wall_ms(t + 40 * MS),
            **stored,
        )  # fmt: skip

    def _group(self) -> None:
        """A member reads the one partition of its topic, and commits after every round."""
        at: Row = {"topic": GROUPED, "partition": 0}
        member: Row = {"group": "g", **at}
        begin, op, end = self.times.begin, 0, GROUP_RECORDS * (self.layout.rounds + 1)
        process = "member"
        self.add("assignment", begin + 3 * S + 200 * MS, process, event="assigned", **member)
        base = (self.layout.partitions + 1) * self.layout.log_length
        for offset in range(end):
            t = self._grouped_t(offset)
            value = base + offset
            same = {"type": "ok", "value": value, "offset": offset, **at}
            self.add(
                "produce", t, "producer-grouped", invoke_t=t - MS, op=offset, error=0, acks=-1,
                node=leader(0, 0), leader_epoch=0, log_append_time_ms=wall_ms(t), **same,
            )  # fmt: skip
            fetched = {**same, "poll": op, "op": op, "leader_epoch": 0, "whole": True}
            self.add("fetch", t + 5 * MS, process, invoke_t=t - MS, **fetched)
            op += 1
            if (offset + 1) % GROUP_RECORDS == 0:
                kept = {"type": "ok", "offset": offset + 1, "error": 0, **member}
                self.add("commit", t + 10 * MS, process, invoke_t=t + 8 * MS, op=op, **kept)
                op += 1
        last = self.times.load_end + 100 * MS
        asked = {"type": "ok", "offset": end, "error": 0, **member}
        self.add("committed", last, process, invoke_t=last - MS, op=op, **asked)
        for node in NODES:
            for offset in range(end):
                self.add(
                    "log_read", self.times.final_read + offset * 1_000, "final-read", node=node,
                    offset=offset, value=base + offset, leader_epoch=0, producer_epoch=-1,
                    append_time_ms=wall_ms(self._grouped_t(offset)), whole=True, **at,
                )  # fmt: skip

    def _grouped_t(self, offset: int) -> int:
        number, inside = divmod(offset, GROUP_RECORDS)
        return self.times.round(number) + 2 * S + inside * S

    def _plane_use(self) -> None:
        """No less than was asked in any round."""
        control = (self.plane, self._listener)
        asked = {
            "PRODUCE": (*("data", "CLIENT"), 100 + FLOODED * ROUND_NS // (S // 2)),
            "METADATA": (*("data", "CLIENT"), READS_A_ROUND + len(NODES)),
            "LEADER_AND_ISR": (*control, 2 + PROBES_A_ROUND),
            "UPDATE_METADATA": (*control, 2 + PROBES_A_ROUND),
            "STOP_REPLICA": (*control, 1),
        }
        for number in range(self.layout.rounds + 1):
            for node in NODES:
                own = {"node": node, "boot": 1, "interval_ns": ROUND_NS}
                t, process = self.times.round(number) + 7 * S, f"node-{node}"
                for api, (plane, listener, requests) in asked.items():
                    self.add("plane_use", t, process, plane=plane, listener=listener, api=api,
                             requests=requests, **own)  # fmt: skip

    @property
    def _listener(self) -> str:
        """By which the controller's requests come."""
        return "CONTROLLER" if self.planes == "dual" else "REPLICATION"

    def _end(self) -> None:
        t = self.times.load_end - 100 * MS
        places = {(TOPIC, p): self.layout.log_length for p in range(self.layout.partitions)}
        places[GROUPED, 0] = GROUP_RECORDS * (self.layout.rounds + 1)
        for topic, p in places:
            epoch = self.layout.rounds if topic == TOPIC else 0
            self.add(
                "final_state", t, "final-state", what="partition", topic=topic, partition=p,
                leader=leader(p, epoch), leader_epoch=epoch, isr=list(NODES),
                replicas=self._replicas(topic, p),
            )  # fmt: skip
        for node in NODES:
            self.add(
                "final_state", t, "final-state", what="node", node=node, running=True,
                registered=True, answers=True,
            )  # fmt: skip
            for (topic, p), length in places.items():
                epoch = self.layout.rounds if topic == TOPIC else 0
                self.add(
                    "log_end", self.read_end, "final-read", node=node, topic=topic, partition=p,
                    log_start_offset=0, log_end_offset=length, high_watermark=length,
                    is_leader=leader(p, epoch) == node,
                )  # fmt: skip
                self.add(
                    "log_folder", self.read_end, "final-read", node=node, topic=topic, partition=p,
                    segments=1, batches=1, index_entries=0, snapshots=0, start_offset=0,
                    end_offset=length, producers=[], epochs=[], checkpoint=[],
                    damage=[],
                )  # fmt: skip
                for key, told in (("bytes", "100"), ("offset lag", "0"), ("is future", "False")):
                    self.add(
                        "described", self.read_end, "final-read", node=node, api="DescribeLogDirs",
                        name=f"{topic}-{p}", key=key, told=told, known=False,
                    )  # fmt: skip

    # -- accounts ---------------------------------------------------------------------------------

    CLIENTS: Final = (*PRODUCERS, "producer-grouped", "consumer", "member", "metadata-reader",
                      "prober")  # fmt: skip

    def _sources(self) -> None:
        """What each live file held; nothing is missing."""
        for process in (*self.CLIENTS, "harness", *(f"node-{n}" for n in NODES)):
            rows = self._written_by(process)
            node = int(process.removeprefix("node-")) if process.startswith("node-") else None
            own = process == "harness"
            self.rows.setdefault("source", []).append(
                {
                    "t": self.read_end + 5 * MS if own else self.times.load_end + 200 * MS,
                    "process": process, "node": node, "boot": node and 1, "source": process,
                    "rows": rows, "unnumbered": 0, "last_seq": rows - 1, "missing": 0,
                    "repeated": 0, "rejected": 0, "torn": 0, "orphans": 0,
                    "first_t": self.times.begin + (0 if own or node else 2 * S),
                    "backwards_ns": 0, "reasons": "{}", "closed": node is None,
                }
            )  # fmt: skip

    def _written_by(self, process: str) -> int:
        """Rows of one file. The harness writes for the watch, the state and the final read, too."""
        if process in self.CLIENTS:
            return max(1, self.layout.log_length)
        names = {process}
        if process == "harness":
            names |= {"zk-watch", "zk-log", "sockets", "final-state", "final-read"}
        return sum(row["process"] in names for rows in self.rows.values() for row in rows)

    def workloads(self) -> list[Row]:
        partitions = list(range(self.layout.partitions))
        made = {TOPIC: partitions}
        once = {"delivery": "once-a-leader"}
        return [
            {"process": PRODUCERS[0], "role": "producer", "topics": made, "acks": -1, **once},
            {"process": PRODUCERS[1], "role": "producer", "topics": made, "acks": 1, **once},
            {"process": "producer-grouped", "role": "producer", "topics": {GROUPED: [0]},
             "acks": -1, **once},
            {"process": "consumer", "role": "consumer", "topics": made},
            {"process": "member", "role": "group-consumer", "topics": {GROUPED: [0]}},
            {"process": "metadata-reader", "role": "metadata-reader", "topics": {TOPIC: []},
             "nodes": list(NODES)},
            {"process": "prober", "role": "prober", "nodes": list(NODES)},
        ]  # fmt: skip
