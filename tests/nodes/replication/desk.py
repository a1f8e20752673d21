"""One broker at its desk: everything that it does about partitions, in order, as lines of text.

    fetches t-0 from 2 epoch 3 at 5          ``fetches no more t-0``
    leads t-0 epoch 3.5 from 5 isr 1,2 of 1,2,3 waits for 1,2 hw 0 end 5 by 1
    follows 2 in t-0 epoch 4.6 hw 0 end 5 by 1
    thread + ReplicaFetcherThread-0-2        ``-``: it is to end
    log + t-0                                a log is made (``-``: deleted)
    wakes t-0                                whoever waits for it
    cut t-0 epoch 4 from 5 to 3: why         a log is shorter by what its leader does not have
    hears leads t-0 follows t-1              who keeps something by leadership
    proposes t-0 epoch 3.5 isr 1,2,3
    answer ...                               to a request

The partitions, their logs and the purgatories are real; the other brokers, the clock and all
threads are the test's. "epoch 3.5": a leader epoch and a partition epoch.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from nodes.config import BrokerConfig
from nodes.core.errors import Errors
from nodes.core.types import TopicPartition
from nodes.log.config import LogConfig
from nodes.log.manager import LogManager
from nodes.metrics import Metrics
from nodes.replication.fetcher import InitialFetch, ReplicaFetcherThread
from nodes.replication.metadata_cache import MetadataCache
from nodes.replication.model import (
    FetchParams,
    FetchPartitionRequest,
    FetchResult,
    ListOffsetResult,
)
from nodes.replication.partition import IsrAnswer, IsrProposal, Partition
from nodes.replication.replica_manager import ReplicaManager
from nodes.wire.apis import ApiKey, request_class
from nodes.wire.build import build
from nodes.wire.records import build_batch, iter_batches

ME = 1
PARTITION_EPOCHS = 5
"""By so much a partition epoch is ahead of the leader epoch, unless a test says otherwise: neither
can be taken for the other."""
LAG_MAX_MS = 10_000
TOPIC_ID = uuid.UUID(int=7)


def tp(name: str) -> TopicPartition:
    topic, _, index = name.rpartition("-")
    return TopicPartition(topic, int(index))


def name_of(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def ids(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers)) or "nobody"


def records(leader_epoch: int, base_offset: int, count: int = 1) -> bytes:
    """As a leader sends them."""
    data = bytearray(build_batch([(None, b"v", 1_700_000_000_000)] * count))
    data[0:8] = base_offset.to_bytes(8, "big")
    data[12:16] = leader_epoch.to_bytes(4, "big")
    return bytes(data)


class Truncations:
    """In place of a trace: what was cut off a log becomes a line."""

    enabled = False

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def event(self, kind: str, **f: Any) -> None:
        if kind == "truncation":
            self._desk.said.append(
                f"cut {f['topic']}-{f['partition']} epoch {f['leader_epoch']} from "
                f"{f['from_offset']} to {f['to_offset']}: {f['reason']}"
            )


class Leader:
    """Another broker, as the fetcher sees it: says what the test put into `Desk.says`."""

    def __init__(self, desk: Desk, leader_id: int) -> None:
        self._desk, self._id = desk, leader_id

    def fetch(
        self, partitions: Sequence[tuple[TopicPartition, FetchPartitionRequest]]
    ) -> list[tuple[TopicPartition, FetchResult]]:
        for partition, r in partitions:
            self._desk.said.append(
                f"asks {self._id} for {name_of(partition)} at {r.fetch_offset} epoch "
                f"{r.current_leader_epoch} last {r.last_fetched_epoch} start {r.log_start_offset}"
            )
        meanwhile, self._desk.meanwhile = self._desk.meanwhile, lambda: None
        meanwhile()
        return [(p, self._desk.says[name_of(p)]) for p, _ in partitions]

    def latest_offset(self, partition: TopicPartition, epoch: int) -> ListOffsetResult:
        self._desk.said.append(f"asks {self._id} for the end of {name_of(partition)} epoch {epoch}")
        return self._desk.ends

    def earliest_offset(self, partition: TopicPartition, epoch: int) -> ListOffsetResult:
        self._desk.said.append(
            f"asks {self._id} for the start of {name_of(partition)} epoch {epoch}"
        )
        return self._desk.starts

    def close(self) -> None: ...


class Desk:
    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self._patch = folder, monkeypatch
        self.said: list[str] = []
        self.now_ms = 1_000_000
        self.says: dict[str, FetchResult] = {}
        self.ends = self.starts = ListOffsetResult(0, -1, 0, 0)
        self.meanwhile: Callable[[], None] = lambda: None
        self.proposals: dict[str, tuple[IsrProposal, Callable[[IsrAnswer], None]]] = {}
        self.min_isr = 1
        self.alive = {1, 2, 3}
        self.controller_epoch = 1
        for method, sign in (("start", "+"), ("stop", "-")):
            monkeypatch.setattr(
                ReplicaFetcherThread,
                method,
                lambda thread, sign=sign: self.said.append(f"thread {sign} {thread.name}"),
            )
        self.boot()

    def boot(self, *, verify: bool = True) -> None:
        """A life of this broker; what it had on disk is there."""
        config = BrokerConfig.from_properties(
            {
                "broker.id": str(ME),
                "zookeeper.connect": "unused:1",
                "log.dirs": str(self.folder),
                "replica.lag.time.max.ms": str(LAG_MAX_MS),
            }
        )
        self.logs = LogManager(
            [self.folder],
            LogConfig(min_insync_replicas=self.min_isr),
            now_ms=lambda: 1_700_000_000_000,
            broker_id=ME,
            verify_tail=verify,
        )
        self.logs.load()
        self.manager = ReplicaManager(
            config,
            self.logs,
            MetadataCache(ME),
            Truncations(self),  # type: ignore[arg-type]
            Metrics(),
            now_ns=lambda: self.now_ms * 1_000_000,
            broker_epoch=lambda: 1,
            topic_overrides=lambda _topic: {"min.insync.replicas": str(self.min_isr)},
            end_points=lambda leader_id, _fetcher: Leader(self, leader_id),
            alter_partition=self,  # type: ignore[arg-type]
        )
        self.manager._checkpointed = self.logs.read_high_watermarks()
        self._listen()
        self.metadata()

    def _listen(self) -> None:
        manager, fetchers = self.manager, self.manager.fetchers
        add, remove = fetchers.add, fetchers.remove

        def adds(initial: Mapping[TopicPartition, InitialFetch]) -> None:
            for partition, f in initial.items():
                cut = " cut there" if f.cuts_first else ""
                self.said.append(
                    f"fetches {name_of(partition)} from {f.leader_id} epoch {f.leader_epoch} "
                    f"at {f.offset}{cut}"
                )
            add(initial)

        def removes(partitions: Iterable[TopicPartition]) -> None:
            gone = list(partitions)
            if gone:
                self.said.append(f"fetches no more {','.join(map(name_of, gone))}")
            remove(gone)

        def wakes(partition: TopicPartition) -> None:
            self.said.append(f"wakes {name_of(partition)}")
            complete(partition)

        complete = manager.complete_delayed
        self._patch.setattr(fetchers, "add", adds)
        self._patch.setattr(fetchers, "remove", removes)
        self._patch.setattr(manager, "complete_delayed", wakes)
        self._patch.setattr(
            manager, "start_high_watermark_checkpoints", lambda: self.said.append("checkpoints")
        )
        manager.on_leadership_change = lambda leading, following: self.said.append(
            "hears"
            + "".join(f" leads {name_of(p.tp)}" for p in leading)
            + "".join(f" follows {name_of(p.tp)}" for p in following)
        )
        made, deleted = self.logs.get_or_create, self.logs.async_delete

        def makes(partition: TopicPartition, *more: Any, **named: Any) -> Any:
            if self.logs.get(partition) is None:
                self.said.append(f"log + {name_of(partition)}")
            return made(partition, *more, **named)

        def deletes(partition: TopicPartition) -> None:
            self.said.append(f"log - {name_of(partition)}")
            deleted(partition)

        self._patch.setattr(self.logs, "get_or_create", makes)
        self._patch.setattr(self.logs, "async_delete", deletes)
        self._watch(Partition, "make_leader")
        self._watch(Partition, "make_follower")
        self._watch(Partition, "delete", lambda p: f"forgets {name_of(p.tp)}: {self.role(p)}")

    def _watch(
        self, owner: Any, method: str, line: Callable[[Partition], str] | None = None
    ) -> None:
        real = getattr(owner, f"_real_{method}", getattr(owner, method))
        self._patch.setattr(owner, f"_real_{method}", real, raising=False)

        def watched(partition: Partition, *args: Any) -> Any:
            at = len(self.said)
            result = real(partition, *args)
            self.said.insert(at, line(partition) if line else self.role(partition))
            return result

        self._patch.setattr(owner, method, watched)

    # ---- AlterPartitionManager -------------------------------------------------------------------

    def submit(
        self, partition: TopicPartition, proposal: IsrProposal, answer: Callable[[IsrAnswer], None]
    ) -> bool:
        name = name_of(partition)
        self.said.append(
            f"proposes {name} epoch {proposal.leader_epoch}.{proposal.partition_epoch} isr "
            f"{ids(proposal.isr)}"
        )
        if name in self.proposals:
            return False
        self.proposals[name] = (proposal, answer)
        return True

    def answer_proposal(self, name: str = "t-0", error: int = 0, **changes: Any) -> None:
        """What the controller says to the proposal that is out."""
        proposal, answer = self.proposals.pop(name)
        said = IsrAnswer(
            error, proposal.leader_epoch, proposal.partition_epoch + 1, proposal.isr
        )._replace(**changes)
        answer(said if not error else IsrAnswer(error))
        self.said.append(self.role(self.partition(name)))

    # ---- what the controller orders --------------------------------------------------------------

    def leader_and_isr(self, *states: dict[str, Any], **header: Any) -> None:
        by_topic: dict[str, list[dict[str, Any]]] = {}
        for state in states:
            partition = tp(state.get("tp", "t-0"))
            by_topic.setdefault(partition.topic, []).append(
                {
                    "partition_index": partition.partition,
                    "controller_epoch": self.controller_epoch,
                    "leader": 2,
                    "leader_epoch": 0,
                    "isr": [1, 2, 3],
                    "partition_epoch": state.get("leader_epoch", 0) + PARTITION_EPOCHS,
                    "replicas": [1, 2, 3],
                    **{k: v for k, v in state.items() if k != "tp"},
                }
            )
        topic_id = header.pop("topic_id", TOPIC_ID)
        request = build(
            request_class(ApiKey.LEADER_AND_ISR, 7),
            **{
                "controller_id": 9,
                "controller_epoch": self.controller_epoch,
                "broker_epoch": -1,
                "type_": 0,
                "topic_states": [
                    {"topic_name": topic, "topic_id": topic_id, "partition_states": rows}
                    for topic, rows in by_topic.items()
                ],
                "live_leaders": [],
                **header,
            },
        )
        self._answered(self.manager.become_leader_or_follower(5, request))

    def stop_replica(
        self, *names: str, leader_epoch: int = 9, delete: bool = False, **header: Any
    ) -> None:
        request = build(
            request_class(ApiKey.STOP_REPLICA, 4),
            **{
                "controller_id": 9,
                "controller_epoch": self.controller_epoch,
                "broker_epoch": -1,
                "topic_states": [
                    {
                        "topic_name": tp(name).topic,
                        "partition_states": [
                            {
                                "partition_index": tp(name).partition,
                                "leader_epoch": leader_epoch,
                                "delete_partition": delete,
                            }
                        ],
                    }
                    for name in names
                ],
                **header,
            },
        )
        self._answered(self.manager.stop_replicas(5, request))

    def metadata(self, *leaders: tuple[str, int], **header: Any) -> None:
        """UpdateMetadata: who lives, and who leads what."""
        request = build(
            request_class(ApiKey.UPDATE_METADATA, 8),
            **{
                "controller_id": 9,
                "controller_epoch": self.controller_epoch,
                "broker_epoch": -1,
                "topic_states": [
                    {
                        "topic_name": tp(name).topic,
                        "topic_id": TOPIC_ID,
                        "partition_states": [
                            {
                                "partition_index": tp(name).partition,
                                "controller_epoch": self.controller_epoch,
                                "leader": leader,
                                "leader_epoch": 0,
                                "isr": [leader],
                                "zk_version": 0,
                                "replicas": [1, 2, 3],
                                "offline_replicas": [],
                            }
                        ],
                    }
                    for name, leader in leaders
                ],
                "live_brokers": [
                    {
                        "id_": i,
                        "endpoints": [
                            {
                                "port": 1,
                                "host": "h",
                                "listener": "PLAINTEXT",
                                "security_protocol": 0,
                            }
                        ],
                        "rack": None,
                    }
                    for i in sorted(self.alive)
                ],
                **header,
            },
        )
        result = self.manager.maybe_update_metadata_cache(5, request)
        deleted = f" deleted {','.join(map(name_of, result.deleted))}" if result.deleted else ""
        self.said.append(f"answer {Errors(result.error).name}{deleted}")

    def _answered(self, result: Any) -> None:
        rows = [f"{r.topic}-{r.partition} {Errors(r.error).name}" for r in result.partition_errors]
        self.said.append(", ".join([f"answer {Errors(result.error).name}", *rows]))

    # ---- what clients and followers ask ----------------------------------------------------------

    def produce(self, *names: str, acks: int = -1, timeout_ms: int = 1000) -> None:
        """One record to each."""
        batch = bytes(build_batch([(None, b"v", 1_700_000_000_000)]))

        def respond(results: dict[TopicPartition, Any]) -> None:
            rows = [
                f"{name_of(p)} {Errors(r.error).name} at {r.base_offset}"
                for p, r in results.items()
            ]
            self.said.append(f"produced {', '.join(rows)}")

        entries = {tp(name): batch for name in names or ("t-0",)}
        self.manager.append_records(timeout_ms, acks, entries, respond)

    def acknowledge(self, offset: int, name: str = "t-0", *, epoch: int = 0) -> None:
        """What an acks=all append of that epoch, with records below that offset, is told now."""
        done, error = self.partition(name).acknowledgement(offset, epoch)
        self.said.append(f"below {offset} {error.name if done else 'waits'}")

    def fetch(self, replica: int, offset: int, *names: str, **more: Any) -> None:
        """Of a follower, or of a consumer (-1)."""
        epoch = more.pop("epoch", -1)
        last = more.pop("last", -1)
        start = more.pop("start", 0)
        params = FetchParams(replica_id=replica, **{"max_wait_ms": 0, **more})

        def respond(results: list[tuple[TopicPartition, FetchResult]]) -> None:
            rows = []
            for partition, r in results:
                row = f"{name_of(partition)} {Errors(r.error).name}"
                if not r.error:
                    found = r.records if isinstance(r.records, bytes) else r.records.read()
                    held = [b.header.base_offset for b in iter_batches(bytes(found))]
                    row += f" hw {r.high_watermark} start {r.log_start_offset} records {ids(held)}"
                if r.diverging_epoch is not None:
                    row += f" diverges at {r.diverging_epoch[0]}.{r.diverging_epoch[1]}"
                rows.append(row)
            self.said.append(f"fetched {', '.join(rows)}")

        asked = [
            (tp(name), FetchPartitionRequest(offset, start, 1 << 20, epoch, last))
            for name in names or ("t-0",)
        ]
        self.manager.fetch_messages(params, asked, respond)

    def list_offset(
        self, timestamp: int, name: str = "t-0", *, epoch: int = -1, replica: int = -1
    ) -> None:
        r = self.manager.list_offset(tp(name), timestamp, epoch, 0, replica)
        found = "" if r.error else f" at {r.offset} epoch {r.leader_epoch} time {r.timestamp_ms}"
        self.said.append(f"{name} for {timestamp} {Errors(r.error).name}{found}")

    def epoch_end(self, leader_epoch: int, name: str = "t-0", *, epoch: int = -1) -> None:
        r = self.manager.last_offset_for_leader_epoch(tp(name), epoch, leader_epoch)
        found = "" if r.error else f" {r.leader_epoch} at {r.end_offset}"
        self.said.append(f"{name} end of {leader_epoch} {Errors(r.error).name}{found}")

    def delete_records(self, offset: int, *names: str) -> None:
        def respond(results: dict[TopicPartition, Any]) -> None:
            rows = [
                f"{name_of(p)} {Errors(r.error).name} low {r.low_watermark}"
                for p, r in sorted(results.items())
            ]
            self.said.append(f"deleted {', '.join(rows)}")

        self.manager.deletions.delete({tp(n): offset for n in names or ("t-0",)}, 1000, respond)

    def checkpoint(self) -> None:
        self.manager.checkpoint_high_watermarks()
        read = self.logs.read_high_watermarks()
        rows = [f"{name_of(p)} {offset}" for p, offset in sorted(read.items())]
        self.said.append(f"on disk {', '.join(rows)}")

    def follow(self) -> None:
        """One round of every fetcher, and what came of it."""
        for thread in list(self.manager.fetchers._threads.values()):
            thread._changed.wait = lambda _timeout=None: None  # type: ignore[assignment]
            thread.work()
            for name in sorted(self.says):
                partition = self.manager.partition(tp(name))
                if partition is not None and partition.log is not None:
                    state = thread._states.get(tp(name))
                    at = f"next {state.fetch_offset}" if state else "no more"
                    if state and state.ready_ns > self.now_ms * 1_000_000:
                        rest_ms = state.ready_ns // 1_000_000 - self.now_ms
                        at += f" in {rest_ms} ms"
                    self.said.append(f"{self.role(partition)} {at}")

    def tick(self, ms: int) -> None:
        """Time passes; then the ISRs are looked at."""
        self.now_ms += ms
        self.manager.maybe_shrink_isrs()

    # ---- looks -----------------------------------------------------------------------------------

    def partition(self, name: str = "t-0") -> Partition:
        found = self.manager.partition(tp(name))
        assert found is not None
        return found

    def role(self, p: Partition) -> str:
        end = "no log" if p.log is None else f"hw {p.high_watermark} end {p.log.log_end_offset}"
        epochs = f"epoch {p.leader_epoch}.{p.partition_epoch}"
        if not p.is_leader:
            kept = " with an ISR" if p.isr_state.isr or p.isr_state.maximal_isr else ""
            kept += " with followers" if p.followers else ""
            return (
                f"follows {p.leader_id} in {name_of(p.tp)} {epochs} {end} by "
                f"{p.controller_epoch}{kept}"
            )
        state = p.isr_state
        moves = f" adding {ids(p.adding_replicas)}" if p.adding_replicas else ""
        moves += f" removing {ids(p.removing_replicas)}" if p.removing_replicas else ""
        waits = ids(sorted(state.maximal_isr))
        return (
            f"leads {name_of(p.tp)} {epochs} from {p.leader_epoch_start} isr "
            f"{ids(sorted(state.isr))} of {ids(p.replicas)}{moves} waits for {waits} {end} "
            f"by {p.controller_epoch}"
        )

    def look(self, name: str = "t-0") -> None:
        self.said.append(self.role(self.partition(name)))

    def epochs(self, name: str = "t-0") -> None:
        entries = self.partition(name).local_log()._epochs.entries
        said = ", ".join(f"{e} from {o}" for e, o in entries) or "none"
        self.said.append(f"epochs {said}")

    def run(self) -> None: ...

    def told(self) -> list[str]:
        lines, self.said[:] = list(self.said), []
        return lines

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self.logs.close()
