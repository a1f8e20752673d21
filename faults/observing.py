"""What faults look at to see that a situation has come about: in-sync sets and ends of logs.

In-sync sets are read from the committed state; ends of logs from the files themselves, because a
broker that is stopped or dead cannot be asked.
"""

from __future__ import annotations

from pathlib import Path

from faults.base import wait_for
from faults.params import Params
from faults.protocol import Context, FaultFailed, PartitionState
from faults.targets import parse_partition, partition_state
from faults.torn_tail import batches

_LOOK_S = 0.05


def read_partition(params: Params, name: str = "partition") -> tuple[str, int]:
    """A required parameter ``topic-partition``."""
    text = params.text(name)
    found = parse_partition(text)
    if found is None:
        raise params.error(name, f"{text!r} is not allowed; allowed: topic-partition")
    return found


def log_end(ctx: Context, node: int, topic: str, partition: int) -> int:
    """The offset after the last whole batch in the log files of a replica. Capability LOG_FILES.

    `FaultFailed` when the node has no log of the partition."""
    newest = _newest_segment(ctx, node, topic, partition)
    whole = batches(newest.read_bytes())
    return whole[-1][2] if whole else int(newest.stem)


def segment_start(ctx: Context, node: int, topic: str, partition: int) -> int:
    """The base offset of a replica's newest segment. Capability LOG_FILES; raises as `log_end`."""
    return int(_newest_segment(ctx, node, topic, partition).stem)


def _newest_segment(ctx: Context, node: int, topic: str, partition: int) -> Path:
    folder = Path(ctx.nodes.log_dir(node)) / f"{topic}-{partition}"
    segments = sorted(folder.glob("*.log"))
    if not segments:
        raise FaultFailed(f"broker {node} has no log of {topic}-{partition}")
    return segments[-1]


def is_full(ctx: Context, state: PartitionState) -> bool:
    """Led, and every replica alive and in sync."""
    replicas = set(state.replicas)
    return state.leader >= 0 and replicas <= {*state.isr} & {*ctx.view.live_brokers()}


def await_all_in_sync(ctx: Context, *, timeout_ms: int) -> None:
    """Until every partition `is_full`."""
    wait_for(
        ctx,
        lambda: all(is_full(ctx, state) for state in ctx.view.partitions()),
        timeout_ms=timeout_ms,
        what="every in-sync set is full",
        poll_s=_LOOK_S,
    )


def await_full_isr(
    ctx: Context, topic: str, partition: int, *, timeout_ms: int, least: int = 1
) -> PartitionState:
    """The partition's state once all of its replicas are in sync; they must be ``least`` many."""
    state = partition_state(ctx.view, topic, partition)
    if len(state.replicas) < least:
        raise FaultFailed(f"{topic}-{partition} has {len(state.replicas)} replicas, not {least}")
    wait_for(
        ctx,
        lambda: is_full(ctx, partition_state(ctx.view, topic, partition)),
        timeout_ms=timeout_ms,
        what=f"every replica of {topic}-{partition} is in sync",
        poll_s=_LOOK_S,
    )
    return partition_state(ctx.view, topic, partition)


def next_in_line(state: PartitionState) -> list[int]:
    """The in-sync followers in the order in which the controller would elect them: that of the
    assignment (Kafka's PartitionLeaderElectionAlgorithms, offline election)."""
    return [r for r in state.replicas if r != state.leader and r in state.isr]
