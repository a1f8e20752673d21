"""The history's schema: what one row of evidence says. This is its only home.

A history is a set of events. One event is one row of one *kind*; each kind is a table of its own,
``history/f=<kind>/*.parquet`` (`checkers.history.parts`), because checks read one or two kinds and
splitting by kind is worth more than any Spark setting.

Live, while a run lasts, an event is one line of JSON in a file that one process appends to:
``{"f": kind, "t": ns, "process": name, ...fields of its kind}``. Absent fields are null. The
finishing step (harness/history) validates each line against this module, pairs invocations with
completions, adds ``arm`` and ``trial`` and writes Parquet.

Times are int64 nanoseconds of ``CLOCK_MONOTONIC`` (one host, shared by containers), never
timestamps: Spark keeps microseconds. Fields ending in ``_ms`` are wall-clock milliseconds as Kafka
stores them; ``run.json`` ties the two clocks together with their error.

Operation rows carry ``type`` as Jepsen has it: ``ok`` happened; ``fail`` certainly did not;
``info`` nobody knows (time-out, disconnect, NOT_LEADER_OR_FOLLOWER on a produce that may have
landed). Live files also hold ``invoke`` rows, so that a crash loses no operation: finishing turns
an invocation without completion into an ``info`` row. Stored tables hold completions only, each
with its ``invoke_t``.

This module imports neither Spark nor Arrow until asked for their schemas.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa

VERSION: Final = 2
"""Raised whenever a stored history could be read differently by newer code. Version 1 is read, too:
see `checkers.history.parts`."""

COMMON: Final[Mapping[str, str]] = {
    "t": "int64",  # when it happened; for an operation, when it completed
    "process": "string",  # who wrote it down: producer-3, node-1, nemesis, zk-watch
    "node": "int32",  # the broker that it concerns, null when none
    "boot": "int32",  # node events: which start of that node, from 1
    "error_ns": "int64",  # how far off the row's times may be, either way; null: read off the clock
    "seq": "int64",  # its number among what this writer said (a node: in this boot), from 0
}
PARTITION_COLUMNS: Final = ("arm", "trial")
"""In every stored row (of version 1: in its folders' names). *arm*: what is compared
(``dualplane-single``); *trial*: its repetition (int). One (arm, trial) is one cluster's life:
partitions, epochs and values are only comparable in it."""

_OP: Final[Mapping[str, str]] = {
    "type": "string",  # ok | fail | info (live files: invoke as well)
    "op": "int64",  # unique in (process): ties a completion to its invocation
    "invoke_t": "int64",
    "error": "int32",  # Kafka's error code; null when none was received
    "failure": "string",  # why there is no answer: timeout, disconnect, ...
}
_TP: Final[Mapping[str, str]] = {"topic": "string", "partition": "int32"}
FORGER: Final = "biplane-forger-"
"""So begin the client ids of forged control requests; a controller's is its broker's number."""
SHUTDOWN: Final = "CONTROLLED_SHUTDOWN"
"""What a broker asks its controller for before it stops; as ``api`` of ``forged`` alone."""
SENT: Final = " (sent)"
"""So ends the ``failure`` of a produce whose client, a library that may keep records back, tells
that it sent some of that partition meanwhile."""
_LEADER: Final = "topic:string,partition:int32,leader:int32,leader_epoch:int32"


@dataclass(frozen=True, slots=True)
class Kind:
    """One table: its name, what one row says, its columns beyond COMMON in storage order."""

    name: str
    says: str
    columns: Mapping[str, str]

    @property
    def all_columns(self) -> dict[str, str]:
        return {**COMMON, **self.columns}


_KINDS: Final = (
    # ---- client operations -------------------------------------------------------------------
    Kind(
        "produce",
        "One record offered to one broker; `value` is unique in a trial. Where nobody answered, "
        "`node` or the end of `failure`, (sent), tells that a broker was asked at all.",
        {
            **_OP,
            **_TP,
            "value": "int64",
            "acks": "int32",  # 0, 1 or -1
            "offset": "int64",  # acknowledged offset; null or -1 when unknown (acks=0)
            "log_append_time_ms": "int64",  # from the response; -1 or null with CreateTime
            "leader_epoch": "int32",  # believed by the client when it sent; null when unknown
        },
    ),
    Kind(
        "repeated",
        "One record that was acknowledged, of an idempotent producer, sent once more, as its batch "
        "was, to one broker (`node`), and what that answered.",
        {
            **_OP,
            **_TP,
            "value": "int64",
            "leader_epoch": "int32",  # believed by the client when it sent it again
            "first_t": "int64",  # when it was sent first
            "first_offset": "int64",  # where it is, by the first answer
            "later": "int32",  # batches of that producer, partition and epoch after it
            "offset": "int64",  # where it is, by this answer; -1: it says nothing of that
        },
    ),
    Kind(
        "fetch",
        "One record delivered to a consumer, or (offset null) one poll that delivered none.",
        {
            **_OP,
            **_TP,
            "poll": "int64",  # number of the poll in this process; rows of one poll share it
            "offset": "int64",
            "value": "int64",  # null when the record is not one of the workload's
            "whole": "bool",  # key, value and headers are as some client sent them
            "leader_epoch": "int32",  # partitionLeaderEpoch of the record's batch
        },
    ),
    Kind(
        "waiting",
        "A consumer (`process`), a library, was given nothing of a partition from `from_t` on, "
        "and had asked a broker (`node`) for it, by its statistics.",
        {**_TP, "from_t": "int64"},
    ),
    Kind(
        "assignment",
        "A member of a consumer group (`process`) was given a partition, or it was taken away.",
        {
            **_TP,
            "group": "string",
            "event": "string",  # assigned | revoked | lost (the member had been thrown out)
        },
    ),
    Kind(
        "commit",
        "An offset that a member of a group asked its coordinator to keep: the next to be read.",
        {**_OP, **_TP, "group": "string", "offset": "int64"},
    ),
    Kind(
        "committed",
        "What the coordinator answered when it was asked for a group's offset; -1: it has none.",
        {
            **_OP,
            **_TP,
            "group": "string",
            "offset": "int64",
            "whole": "bool",  # metadata and leader epoch are as some member committed them with it
        },
    ),
    Kind(
        "group_step",
        "One step in the life of a group without members, and what one broker (`node`) answered: a "
        "position committed for it, asked for, or the group deleted; or somebody asks to join it, "
        "and never comes back; or does join (enter), leaves, and says that it lives (beat); or a "
        "position is raised by one, and looked at meanwhile (see); or a member asks for what it is "
        "given, and waits (sync); or of two members one says that it lives (live), and commits as "
        "the other one comes (keep), and that one leaves (part), or says for the last time that it "
        "lives (last); or a position is deleted without its group (clear), or none is (spare); or "
        "somebody is told of a stable group (describe); or a member asks for what it has "
        "committed (own).",
        {
            **_OP,
            "group": "string",
            "step": "string",  # commit | ask | delete | join | look (DescribeGroups), enter ...
            "offset": "int64",  # committed, or told; -1: none
            # Of a commit: to be kept for so long; null: till it is deleted. Of a join, an enter or
            # a last: its session.
            "keep_ms": "int64",
            "state": "string",  # of a look or describe: the group's; Dead: there is none
            "generation": "int32",  # of an enter that was let in: of what it is a member now
            "untold": "int32",  # of a describe: of how many members nothing is told but their names
            "offers": "string",  # of an enter: protocols that the member would go by, by comma
            "protocol": "string",  # of an enter that was let in: the one that its group goes by
            # Of an enter, a sync or a describe (of a stable group), by who knows all members: what
            # was told otherwise than they had said it; "": nothing; null: nobody compared it.
            "otherwise": "string",
        },
    ),
    Kind(
        "admin_request",
        "One thing that an operator (the harness) asked a broker (`node`) for, most often the "
        "controller, and what came of it.",
        {
            **_OP,
            "api": "string",  # CREATE_TOPICS, ELECT_LEADERS, ...
            "about": "string",  # a topic, a partition as topic-0, or "" (the request as a whole)
            "wanted": "int32",  # what cannot be done: the error that says so; null: it can be done
        },
    ),
    Kind(
        "coordinator",
        "Whom one broker (`node`) named as the coordinator of a group (FindCoordinator).",
        {
            **_OP,
            "group": "string",
            "coordinator": "int32",
            "endpoint": "string",  # and where it is: 1@host:port
        },
    ),
    Kind(
        "listed_offset",
        "What one broker (`node`) answered when it was asked where a partition's log begins or "
        "ends, or where its first record at or after a time is (ListOffsets); `offset` -1: "
        "nowhere.",
        {
            **_OP,
            **_TP,
            "asked_ms": "int64",  # -1: the end, -2: the beginning, else that time
            "believed_epoch": "int32",  # the request's current leader epoch; -1: none
            "offset": "int64",
            "found_ms": "int64",  # that record's time; -1 of a beginning or an end
            "leader_epoch": "int32",  # of that record; of the end: the answering leader's own
        },
    ),
    Kind(
        "epoch_end",
        "What one broker (`node`) answered when it was asked where a leader epoch ends in its log "
        "(OffsetForLeaderEpoch): the newest epoch that it has up to that one, and its end.",
        {
            **_OP,
            **_TP,
            "believed_epoch": "int32",  # the request's current leader epoch
            "asked_epoch": "int32",
            "leader_epoch": "int32",  # -1: it knows none
            "offset": "int64",  # -1: it knows none
        },
    ),
    Kind(
        "records_deleted",
        "What one broker (`node`) answered when it was told to let a partition's log begin at "
        "`offset` (DeleteRecords); `info`: it may do so all the same.",
        {
            **_OP,
            **_TP,
            "offset": "int64",
            "low_watermark": "int64",  # told: below it no live replica can be read any more
        },
    ),
    Kind(
        "read_at",
        "What one broker (`node`) answered when it was asked, as by a consumer, for records from "
        "`offset` on, where somebody had been told that the log ends, or before that (Fetch).",
        {
            **_OP,
            **_TP,
            "offset": "int64",
            "believed_epoch": "int32",  # the request's current leader epoch; -1: none
            "high_watermark": "int64",
            "log_start_offset": "int64",
            "found_end": "int64",  # after the last record that was given; -1: none was
            "leader_epoch": "int32",  # of that record's batch; -1: none was given
            "max_bytes": "int32",  # the most that the whole answer was to give
            "partition_max_bytes": "int32",  # and the most of this partition
            "given_bytes": "int32",  # of this partition
            "first_bytes": "int32",  # of those the first batch; 0: none was given
            # How long the broker was to wait, and until it had how much; 0: not at all.
            "max_wait_ms": "int32",
            "min_bytes": "int32",
        },
    ),
    Kind(
        "read_below",
        "What one broker (`node`) answered when it was asked, as by a consumer, for a record at "
        "`offset`, before the beginning that it had told of; `ok`: as if there was one.",
        {**_OP, **_TP, "offset": "int64"},
    ),
    Kind(
        "metadata",
        "What one broker answered about one partition in one Metadata read; about a topic that was "
        "asked for and that it does not know (`error`), or does not name (`failure`): one row "
        "without a partition.",
        {
            **_OP,
            **_TP,
            "read": "int64",  # number of the read in this process
            "leader": "int32",
            "leader_epoch": "int32",
            "isr": "list<int32>",
            "replicas": "list<int32>",  # of the partition, as this broker knows them
            "offline": "list<int32>",  # those of them that it calls offline
            "controller_id": "int32",  # the answer's; -1: none is known
            "brokers": "list<int32>",  # the live brokers it names; on one row of each answer
            "endpoints": "list<string>",  # where: 1@host:port; on the same row
            "asked_at": "string",  # where this broker was asked: host:port; on the same row
        },
    ),
    Kind(
        "probe",
        "One harmless control request sent on a clock to measure its round trip; counted from "
        "`planned_t`, so that a late reply cannot delay (and flatter) the next.",
        {
            **_OP,
            "planned_t": "int64",
            "api": "string",
            "plane": "string",  # control | data: the listener it was sent to
        },
    ),
    # ---- controller requests -----------------------------------------------------------------
    Kind(
        "control_send",
        "The controller (`node`) is about to write one request to a broker's socket.",
        {
            "to": "int32",
            "api": "string",  # LEADER_AND_ISR | UPDATE_METADATA | STOP_REPLICA
            "correlation_id": "int32",
            "controller_epoch": "int32",
            "broker_epoch": "int64",
            "enqueue_t": "int64",  # when it entered that broker's queue in the channel manager
            "attempt": "int32",  # 1, 2, ...: retries resend the same item
            "partitions": f"list<struct<{_LEADER}>>",
            "partition_epochs": "list<int32>",  # which state of each of `partitions` it tells
        },
    ),
    Kind(
        "control_response",
        "What came of the `control_send` with the same (node, boot, to, correlation_id).",
        {
            "to": "int32",
            "api": "string",
            "correlation_id": "int32",
            "send_t": "int64",
            "error": "int32",  # top-level error; null when no answer came
            "failure": "string",
        },
    ),
    Kind(
        "channel_queue",
        "What the controller's (`node`) metrics said of its queue to one broker, read between "
        "`from_t` and `t`: QueueSize, RequestRateAndQueueTimeMs.",
        {
            "to": "int32",
            "from_t": "int64",
            "size": "int64",  # QueueSize
            "taken": "int64",  # RequestRateAndQueueTimeMs, Count: how many ever left the queue
            "queue_time_p99_us": "int64",  # the same: of the newest 1,028
            "queue_time_max_us": "int64",
        },
    ),
    Kind(
        "control_request",
        "One controller request as the broker (`node`) lived it; `t` is when its response left.",
        {
            "api": "string",
            "version": "int32",
            "correlation_id": "int32",
            "client_id": "string",
            "plane": "string",  # control | data: which plane handled it
            "listener": "string",
            "controller_id": "int32",
            "controller_epoch": "int32",
            "broker_epoch": "int64",  # as the request had it
            "own_broker_epoch": "int64",
            "receive_t": "int64",  # read whole from the socket
            "enqueue_t": "int64",  # the (blocking) put into the request queue returned
            "dequeue_t": "int64",
            "handled_t": "int64",
            "error": "int32",
            "partitions": f"list<struct<{_LEADER},error:int32>>",
        },
    ),
    Kind(
        "plane_use",
        "How many requests a broker's plane took in the interval that ends at `t`, by API.",
        {
            "plane": "string",  # control | data: whose handler served them
            "listener": "string",  # on which they arrived
            "api": "string",  # Kafka's name, as LEADER_AND_ISR
            "interval_ns": "int64",
            "requests": "int64",
        },
    ),
    Kind(
        "plane_metric",
        "What a broker's metrics said of a plane, or of all its requests, while a fault loaded "
        "it, and once the load had ended; read between `from_t` and `t`; `error` when it gave no "
        "answer.",
        {
            "name": "string",  # the fault's id; "at rest": none
            "from_t": "int64",
            "mbean": "string",  # its whole name; a plane's begins with ControlPlane, or does not
            "attribute": "string",  # Value, Count, 50thPercentile
            "value": "string",  # a number as JMX shows it; null: NaN
            "error": "string",
        },
    ),
    # ---- the cluster's own state changes -------------------------------------------------------
    Kind(
        "leadership",
        "A leader and ISR as committed in ZooKeeper, or in a metadata log. `t` is never before the "
        "commit. Source shown: nobody could read what was committed; a broker showed this leader "
        "in this leader epoch at `t`, first of all, which proves the commit and nothing besides.",
        {
            **_TP,
            "leader": "int32",  # -1: none
            "leader_epoch": "int32",
            "controller_epoch": "int32",
            "partition_epoch": "int32",  # the znode's version
            "isr": "list<int32>",
            "elr": "list<int32>",  # KRaft: who may be elected though not in sync (KIP-966)
            "replicas": "list<int32>",  # KRaft: who is assigned, in order
            "source": "string",  # zk: seen by a watch; controller: traced by the writer; shown
            "commit_ms": "int64",  # ZooKeeper's mtime of the znode, null when unknown
            # Which life of the topic this is of: ZooKeeper's czxid of the partition's state znode,
            # or KRaft's topic id. A topic that is deleted and created again has another one.
            "incarnation": "string",
        },
    ),
    Kind(
        "zk_write",
        "One write of the controller's business as ZooKeeper's own transaction log holds it: the "
        "order is that of `zxid`, nothing is missing, and nothing depends on a clock. `node`: who "
        "is controller, or which broker registered. A topic's write is one row a partition.",
        {
            **_TP,
            "zxid": "int64",
            "what": "string",  # state | topic | controller | controller_epoch | broker
            "step": "string",  # created | set | removed
            "leader": "int32",
            "leader_epoch": "int32",
            "controller_epoch": "int32",
            "partition_epoch": "int32",  # the state znode's version
            "isr": "list<int32>",
            "replicas": "list<int32>",  # of a topic's partition: all assigned, moving ones as well
            "commit_ms": "int64",  # ZooKeeper's time of the write
        },
    ),
    Kind(
        "topic_deletion",
        "One step of a topic's deletion as ZooKeeper committed it: `requested`, the znode "
        "/admin/delete_topics/T was made; `gone`, the znode /brokers/topics/T was removed. What "
        "each replica did meanwhile: `replica_stop`.",
        {
            "topic": "string",
            "step": "string",  # requested | gone
            "commit_ms": "int64",  # ZooKeeper's time of the write
        },
    ),
    Kind(
        "leader_change",
        "A broker applied a LeaderAndIsr: it now leads or follows a partition.",
        {
            **_TP,
            "role": "string",  # leader | follower
            "leader": "int32",
            "leader_epoch": "int32",
            "controller_epoch": "int32",
            "correlation_id": "int32",
            "log_end_offset": "int64",
            "high_watermark": "int64",
        },
    ),
    Kind(
        "replica_stop",
        "A broker applied a StopReplica to a partition.",
        {
            **_TP,
            "leader_epoch": "int32",
            "controller_epoch": "int32",
            "correlation_id": "int32",
            "delete": "bool",
        },
    ),
    Kind(
        "truncation",
        "A broker cut its log: records in [to_offset, from_offset) are gone from it.",
        {
            **_TP,
            "leader_epoch": "int32",
            "from_offset": "int64",
            "to_offset": "int64",
            "reason": "string",
        },
    ),
    Kind(
        "metadata_update",
        "A broker's metadata cache took in a partition's state.",
        {
            **_TP,
            "leader": "int32",
            "leader_epoch": "int32",
            "controller_epoch": "int32",
            "correlation_id": "int32",
        },
    ),
    Kind(
        "isr_change",
        "A leader's in-sync set changed (after its write was accepted).",
        {**_TP, "isr": "list<int32>", "leader_epoch": "int32", "partition_epoch": "int32"},
    ),
    Kind(
        "controller",
        "A node became or ceased to be controller.",
        {"event": "string", "controller_epoch": "int32"},  # elected | resigned
    ),
    Kind(
        "exception",
        "An exception that a broker's own code met and logged, or that ended a thread: the first "
        "of its type and `place` in a boot.",
        {
            "error": "string",  # its type, with its module: builtins.AttributeError
            "place": "string",  # where it was raised: config_changes.py:118 _process
            "says": "string",
            "logger": "string",
        },
    ),
    # ---- what the harness did ------------------------------------------------------------------
    Kind(
        "fault",
        "One step of one fault. A fault lasts from `injected` to `healed`.",
        {
            "fault": "string",  # its name, as in the plan
            "id": "string",  # which entry of the plan
            "phase": "string",  # inject | injected | heal | healed | failed
            "nodes": "list<int32>",
            "took_hold": "bool",  # injected/healed: was its effect observed? null: not measurable
            "detail": "string",  # JSON: how symbolic targets were resolved, what was measured
        },
    ),
    Kind(
        "flood",
        "What a flood worker reached in the interval that ends at `t`.",
        {
            "id": "string",  # the fault's id
            "interval_ns": "int64",
            "connections": "int32",  # open at the end of the interval
            "sent": "int64",
            "completed": "int64",
            "errors": "int64",
            "bytes": "int64",
            "latency_max_ns": "int64",
            "lost": "int64",  # of the errors: connections on which an answer was awaited
        },
    ),
    Kind(
        "forged",
        "One request from a zombie or forger, and the answer. Of a ControlledShutdown `node` is "
        "the controller that was asked, and `broker` in whose name.",
        {
            **_OP,
            **_TP,
            "api": "string",
            "plane": "string",
            "lie": "string",  # stale_controller_epoch | stale_broker_epoch | stale_leader_epoch ...
            "controller_id": "int32",
            "controller_epoch": "int32",
            "broker_epoch": "int64",
            "leader": "int32",
            "leader_epoch": "int32",
            "partition_error": "int32",
            "correlation_id": "int32",
            "client_id": "string",
            "broker": "int32",
        },
    ),
    Kind(
        "node_event",
        "The life of a process under test.",
        {
            "event": "string",
            "detail": "string",
        },  # start|ready|stop|stopped|kill|pause|resume|exited
    ),
    Kind(
        "phase",
        "The run's own milestones.",
        {
            "name": "string",
            "event": "string",
        },  # warmup|chaos|heal|quiesce|settle|final_read ; begin|end
    ),
    Kind(
        "connection",
        "How many connections `node` has to a link of broker `to`, from now on, as the kernel has "
        "it: looked at once a second, written when it changed.",
        {
            "to": "int32",
            "link": "string",  # client | inter-broker | control | zookeeper
            "connections": "int32",
        },
    ),
    Kind(
        "infra",
        "Something that the run stands on failed: the run can prove nothing.",
        {"component": "string", "reason": "string"},  # toxiproxy, zookeeper, disk, ...
    ),
    Kind(
        "standstill",
        "Until now nothing ran on this machine: a clock that ticks all the while came late.",
        {"lasting_ns": "int64"},
    ),
    Kind(
        "clock_set",
        "Within the last tenth of a second the wall clock of this machine was set against the "
        "monotonic one: ahead, or back (negative).",
        {"by_ns": "int64"},
    ),
    Kind(
        "strain",
        "Of the second before: how long the harness's own threads ran, and how long they could "
        "have and waited for a processor, as the kernel counts it.",
        {"ran_ns": "int64", "waited_ns": "int64"},
    ),
    Kind(
        "source",
        "One live file as finishing read it (of a node's: one boot): what it holds, and what of it "
        "is missing. `t` is that of its last row. In live files: the writer's last row, `closed`.",
        {
            "source": "string",  # the file, below the trial's live folder, without its suffix
            "rows": "int64",  # readable events
            "unnumbered": "int64",  # of these, without a `seq`: made from a system's log files
            "last_seq": "int64",
            "missing": "int64",  # numbers up to last_seq that no row has
            "repeated": "int64",  # rows more than there are numbers
            "rejected": "int64",  # lines that could not be read, or do not fit the schema
            "torn": "int64",  # 1: its last line has no end
            "orphans": "int64",  # invocations that nobody completed
            "first_t": "int64",  # of rows read off the clock
            "backwards_ns": "int64",  # how far the clock went back between two rows, at most
            "reasons": "string",  # why lines were rejected: JSON, reason -> count
            "closed": "bool",  # its writer said that this is all
            # How many of the file's rows were stored: JSON, kind -> process -> count; on one row
            # of each file. Null in histories of before it was counted.
            "stored": "string",
        },
    ),
    Kind(
        "final_state",
        "Something of the cluster as it was when the load ended, read past every proxy: one row a "
        "partition, a node, a deletion or reassignment that had not ended, a log (`leftover`) or "
        "the `settings` of a topic that is gone, a replica of a partition whose in-sync set was "
        "not full.",
        {
            "what": "string",  # partition | replica | node | deletion | reassignment | leftover |
            # settings | unread: the state could not be read, see `failure`
            **_TP,
            "leader": "int32",
            "leader_epoch": "int32",
            "isr": "list<int32>",
            "replicas": "list<int32>",
            "gives_back": "bool",  # of a partition: the controller sees to it that its preferred
            # leader leads (auto.leader.rebalance.enable)
            "running": "bool",  # its process lives and is not stopped
            "registered": "bool",
            "answers": "bool",  # a Metadata request on its client listener
            "log_end_offset": "int64",
            "earlier_end_offset": "int64",  # the same when its lack was seen first
            "lasting_ns": "int64",  # how long what is wrong with it was seen without a break
            "failure": "string",
        },
    ),
    # ---- the final state -------------------------------------------------------------------------
    Kind(
        "log_read",
        "One record of one replica's log (`node`), read at the end of the trial.",
        {
            **_TP,
            "offset": "int64",
            "value": "int64",
            "whole": "bool",  # key, value and headers are as some client sent them
            "leader_epoch": "int32",
            "append_time_ms": "int64",
            "producer_epoch": "int32",  # of its batch; -1: not of an idempotent producer
        },
    ),
    Kind(
        "log_end",
        "The bounds of one replica's log at the final read; `error` when it could not be read.",
        {
            **_TP,
            "log_start_offset": "int64",
            "log_end_offset": "int64",
            "high_watermark": "int64",
            "is_leader": "bool",
            "error": "string",
        },
    ),
    Kind(
        "log_folder",
        "The folder of one replica's log (`node`), as it lay on disk after the final read; `error` "
        "when it could not be read.",
        {
            **_TP,
            "segments": "int64",
            "batches": "int64",
            "index_entries": "int64",  # of offsets and of times
            "snapshots": "int64",  # of producers
            "start_offset": "int64",  # at which the first segment begins
            "end_offset": "int64",  # behind the last whole batch
            # of each segment; newest_ms: of its records, -1: none
            "kept": "list<struct<base_offset:int64,bytes:int64,newest_ms:int64>>",
            # the last batch of each idempotent producer
            "producers": "list<struct<producer_id:int64,producer_epoch:int32,last_sequence:int32>>",
            "epochs": "list<struct<leader_epoch:int32,first_offset:int64,last_offset:int64>>",
            # leader-epoch-checkpoint
            "checkpoint": "list<struct<leader_epoch:int32,offset:int64>>",
            "topic_id": "string",
            # sort: batch | times | index | producer | snapshot | forgotten | epochs
            "damage": "list<struct<sort:string,file:string,says:string>>",
            "error": "string",
        },
    ),
    Kind(
        "described",
        "A value that an operator was told by one broker (`node`) after the final read, or by its "
        "metrics while a fault lasted (`told`; null: it should have been), beside what ZooKeeper, "
        "or its folders, held of it (`truth`; null: nothing), if that was `known`; "
        "`error` when the broker gave no answer (`known` then: it was asked for what it led).",
        {
            "api": "string",  # DescribeCluster, DescribeConfigs, ...; MBeans: its metrics
            # a topic, topic-partition or group; of the cluster: ""; or the fault that asked
            "name": "string",
            "key": "string",
            "told": "string",
            "truth": "string",
            "known": "bool",
            "error": "string",
        },
    ),
)

KINDS: Final[Mapping[str, Kind]] = {kind.name: kind for kind in _KINDS}
OPERATIONS: Final = frozenset(k.name for k in _KINDS if "invoke_t" in k.columns)


def described() -> Iterator[str]:
    """Every kind and column, as a table in Markdown."""
    common = ", ".join(f"`{n}` {t}" for n, t in COMMON.items())
    yield f"In every row: `arm` string, `trial` int32, {common}."
    yield ""
    yield "| kind | one row says | columns of its own |"
    yield "|---|---|---|"
    for kind in _KINDS:
        yield (
            f"| `{kind.name}` | {kind.says} "
            f"| {', '.join(f'`{n}` {t}' for n, t in kind.columns.items())} |"
        )


class HistoryError(ValueError):
    """A history that cannot be read. The message names file, field and what would be allowed."""


def _split_struct(body: str) -> list[tuple[str, str]]:
    return [tuple(part.split(":", 1)) for part in body.split(",")]  # type: ignore[misc]


def arrow_type(name: str) -> pa.DataType:
    """The Arrow type of a column type as written in this module."""
    import pyarrow as pa

    if name.startswith("list<"):
        return pa.list_(arrow_type(name[5:-1]))
    if name.startswith("struct<"):
        return pa.struct([pa.field(n, arrow_type(t)) for n, t in _split_struct(name[7:-1])])
    scalar: dict[str, pa.DataType] = {
        "int64": pa.int64(),
        "int32": pa.int32(),
        "bool": pa.bool_(),
        "string": pa.string(),
    }
    return scalar[name]


def arrow_schema(kind: str) -> pa.Schema:
    """The Arrow schema of a kind without ``arm`` and ``trial``."""
    import pyarrow as pa

    return pa.schema([pa.field(n, arrow_type(t)) for n, t in KINDS[kind].all_columns.items()])


def spark_ddl(kind: str) -> str:
    """The Spark schema of a kind as DDL (``reader.schema`` takes it), with `PARTITION_COLUMNS`."""

    def ddl(column_type: str) -> str:
        named = column_type.replace("int64", "bigint").replace("int32", "int")
        return named.replace("bool", "boolean").replace("list<", "array<")

    columns = [f"`{n}` {ddl(t)}" for n, t in KINDS[kind].all_columns.items()]
    return ", ".join([*columns, "arm string", "trial int"])
