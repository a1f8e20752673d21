"""Which brokers hold a partition, and how that changes during a reassignment (KIP-455).

A reassignment lives in three lists: `replicas` is everybody who holds the partition right now,
`adding_replicas` those of them who came with the reassignment, `removing_replicas` those who will
leave with its end. The target is what remains when the leaving are gone; the origin is what there
was before the adding came. A mere reordering adds and removes nobody and is complete at once.

New topics get their replicas round robin, as Kafka's AdminUtils does it: leaders go around the
brokers from a random start; each further replica of a partition sits a shift further on, and the
shift grows by one whenever the leaders have gone all the way around, so that brokers do not always
back up the same neighbour. With racks known, neighbours on the ring are in different racks and a
rack is used twice only when all have been used once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from nodes.core.errors import ApiError, Errors


@dataclass(frozen=True, slots=True)
class ReplicaAssignment:
    """The replicas of one partition, in order of preference for leadership."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()

    @property
    def is_being_reassigned(self) -> bool:
        return bool(self.adding_replicas or self.removing_replicas)

    @property
    def origin_replicas(self) -> tuple[int, ...]:
        """Those who held it before the reassignment began."""
        return tuple(r for r in self.replicas if r not in self.adding_replicas)

    @property
    def target_replicas(self) -> tuple[int, ...]:
        """Those who will hold it when the reassignment is complete."""
        return tuple(r for r in self.replicas if r not in self.removing_replicas)

    def reassign_to(self, target: Sequence[int]) -> ReplicaAssignment:
        """The assignment that starts (or redirects) a reassignment: target first, leavers last."""
        origin = self.origin_replicas
        wanted = tuple(target)
        replicas = tuple(dict.fromkeys((*wanted, *origin)))
        return ReplicaAssignment(
            replicas,
            adding_replicas=tuple(r for r in replicas if r not in origin),
            removing_replicas=tuple(r for r in origin if r not in wanted),
        )

    def remove_replica(self, replica: int) -> ReplicaAssignment:
        return ReplicaAssignment(
            tuple(r for r in self.replicas if r != replica),
            tuple(r for r in self.adding_replicas if r != replica),
            tuple(r for r in self.removing_replicas if r != replica),
        )


EMPTY: Final = ReplicaAssignment(())


def assign_replicas_to_brokers(
    brokers: Mapping[int, str | None],
    partitions: int,
    replication_factor: int,
    *,
    start_index: int,
    replica_shift: int,
    first_partition: int = 0,
) -> dict[int, tuple[int, ...]]:
    """Partition -> replicas for `partitions` new partitions numbered from `first_partition`.

    `brokers` maps id -> rack. `start_index` and `replica_shift` are the caller's random numbers.
    """
    if partitions <= 0:
        raise ApiError(Errors.INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
    if replication_factor <= 0:
        raise ApiError(
            Errors.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0."
        )
    if replication_factor > len(brokers):
        raise ApiError(
            Errors.INVALID_REPLICATION_FACTOR,
            f"Replication factor: {replication_factor} larger than available brokers: "
            f"{len(brokers)}.",
        )
    ring = _ring(brokers)
    rack_count = len({rack for rack in brokers.values() if rack is not None})
    assignment: dict[int, tuple[int, ...]] = {}
    shift = replica_shift
    for partition in range(first_partition, first_partition + partitions):
        if partition > 0 and partition % len(ring) == 0:
            shift += 1
        first = (partition + start_index) % len(ring)
        assignment[partition] = _place(
            ring, first, shift * max(1, rack_count), replication_factor, brokers, rack_count
        )
    return assignment


def _ring(brokers: Mapping[int, str | None]) -> list[int]:
    """The brokers in the order that leaders go around: by id, or alternating over racks."""
    racks: dict[str, list[int]] = {}
    for broker in sorted(brokers):
        rack = brokers[broker]
        if rack is None:
            if any(r is not None for r in brokers.values()):
                raise ApiError(
                    Errors.INVALID_REPLICA_ASSIGNMENT,
                    "Not all brokers have rack information for replica rack aware assignment.",
                )
            return sorted(brokers)
        racks.setdefault(rack, []).append(broker)
    ring: list[int] = []
    while len(ring) < len(brokers):
        ring += [racks[rack].pop(0) for rack in sorted(racks) if racks[rack]]
    return ring


def _place(
    ring: Sequence[int],
    first: int,
    shift: int,
    replication_factor: int,
    rack_of: Mapping[int, str | None],
    rack_count: int,
) -> tuple[int, ...]:
    """The replicas of one partition whose leader is ``ring[first]``."""
    chosen = [ring[first]]
    step = 0
    while len(chosen) < replication_factor:
        candidate = ring[(first + 1 + (shift + step) % (len(ring) - 1)) % len(ring)]
        step += 1
        racks = {rack_of[broker] for broker in chosen}
        rack_is_used = rack_count > 0 and rack_of[candidate] in racks and len(racks) < rack_count
        if candidate not in chosen and not rack_is_used:
            chosen.append(candidate)
    return tuple(chosen)
