"""Who is stale: the fencing rules of a broker, one function each (KIP-320, KIP-380, KIP-570).

Three epochs guard three things, and each rule compares exactly one of them:

* ``controller_epoch``: a request from a deposed controller changes nothing;
* ``broker_epoch``: a request meant for this broker's previous life changes nothing;
* ``leader_epoch``: a partition's state never goes back, and a fetch only meets a leader that it
  agrees with.

Pure: what a rule needs is an argument; what it decides is its result.
"""

from __future__ import annotations

from typing import Final

from nodes.core.errors import Errors

NO_EPOCH: Final = -1
"""The field is absent or from a version that lacks it: no check."""
EPOCH_DURING_DELETE: Final = -2
"""LeaderAndIsr.EpochDuringDelete: a deletion does not bump epochs, so this overrides any."""


def broker_epoch_is_stale(request_broker_epoch: int, own_broker_epoch: int) -> bool:
    """Only an older epoch is refused: a newer one comes when the controller saw our registration
    before we did (KAFKA-9839)."""
    return NO_EPOCH != request_broker_epoch < own_broker_epoch


def controller_epoch_is_stale(request_controller_epoch: int, known_controller_epoch: int) -> bool:
    """An equal epoch is the present controller, a higher one its successor."""
    return request_controller_epoch < known_controller_epoch


def metadata_epoch_is_stale(request_controller_epoch: int, known_controller_epoch: int) -> bool:
    """UpdateMetadata's own check; a rule apart so that it can be broken alone."""
    return request_controller_epoch < known_controller_epoch


def leader_and_isr_error(request_leader_epoch: int, current_leader_epoch: int) -> Errors:
    """LeaderAndIsr applies only a higher epoch.

    An equal one is routine when a new controller takes over; ZooKeeper-mode Kafka answers it with
    the same code as a lower one.
    """
    if request_leader_epoch > current_leader_epoch:
        return Errors.NONE
    return Errors.STALE_CONTROLLER_EPOCH


def stop_replica_error(request_leader_epoch: int, current_leader_epoch: int) -> Errors:
    """StopReplica applies an equal epoch too: stopping does not bump it (KIP-570)."""
    if request_leader_epoch in {NO_EPOCH, EPOCH_DURING_DELETE}:
        return Errors.NONE
    if request_leader_epoch >= current_leader_epoch:
        return Errors.NONE
    return Errors.FENCED_LEADER_EPOCH


def client_epoch_error(request_leader_epoch: int, current_leader_epoch: int) -> Errors:
    """Fetch, ListOffsets and OffsetForLeaderEpoch: the reader must know exactly our epoch."""
    if request_leader_epoch in {NO_EPOCH, current_leader_epoch}:
        return Errors.NONE
    if request_leader_epoch < current_leader_epoch:
        return Errors.FENCED_LEADER_EPOCH
    return Errors.UNKNOWN_LEADER_EPOCH
