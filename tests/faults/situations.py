"""What several tests of situations need: brokers' logs on disk, and what a controller would do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from faults.protocol import Link, PartitionState
from nodes.wire.records import build_batch, rewrite_base


def write_log(root: Path, node: int, partition: str, records: int) -> None:
    folder = root / str(node) / partition
    folder.mkdir(parents=True, exist_ok=True)
    data = bytearray()
    for offset in range(records):
        batch = bytearray(build_batch([(None, b"v" * 20, 1)]))
        rewrite_base(batch, 0, offset, 3)
        data += batch
    (folder / "00000000000000000000.log").write_bytes(bytes(data) + b"\0" * 512)


def elect(cluster: Any, key: tuple[str, int], leader: int, **others: Any) -> None:
    state = cluster.states[key]
    cluster.states[key] = replace(
        state, leader=leader, leader_epoch=state.leader_epoch + 1, **others
    )


def following_the_links(ctx: Any) -> None:
    """What a leader would do about followers that it does not hear of, and does hear of again."""
    cluster = ctx.cluster
    real = cluster.partitions

    def partitions(topic: str | None = None) -> list[PartitionState]:
        full = real(topic)
        silent = {n for n, link in cluster.cut if link is Link.INTER_BROKER}
        silent |= {n for n, link, _ in cluster.toxics if link is Link.INTER_BROKER}
        found = []
        for state in full:
            followers = set(state.replicas) - {state.leader}
            out = cluster.paused | (followers if state.leader in silent else set())
            found.append(replace(state, isr=tuple(r for r in state.isr if r not in out)))
        return found

    cluster.partitions = partitions
    cluster._out = lambda node: not cluster.running[node]  # a short pause is no death


def succession(ctx: Any, *, ends: bool = True) -> None:
    """Whoever dies is succeeded by the next live replica."""
    cluster = ctx.cluster
    real_kill, real_stop = cluster.kill, cluster.stop

    def succeed(down: Callable[[int], None]) -> Callable[[int], None]:
        def die(node: int) -> None:
            down(node)
            for key, state in list(cluster.states.items()):
                alive = [r for r in state.replicas if cluster.running[r]]
                if state.leader == node and alive and ends:
                    elect(cluster, key, alive[0], isr=tuple(alive))

        return die

    cluster.kill, cluster.stop = succeed(real_kill), succeed(real_stop)
