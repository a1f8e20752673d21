"""Planted bugs: whose orders a broker obeys, and whose it refuses."""

from __future__ import annotations

from typing import Final

from nodes.core.errors import Errors
from nodes.core.rules import RULES
from nodes.mutants.model import Mutant, no


def _never_stale(_request_epoch: int, _known_epoch: int) -> bool:
    return False


def _no_epoch_error(_request_leader_epoch: int, _current_leader_epoch: int) -> Errors:
    return Errors.NONE


def _first_epoch(before: int, _registered: int) -> int:
    return before


def _is_another_epoch(request_broker_epoch: int, own_broker_epoch: int) -> bool:
    return request_broker_epoch not in (-1, own_broker_epoch)


def _if_stale(error: Errors) -> bool:
    return error is Errors.STALE_CONTROLLER_EPOCH


def _stop_with_another_error(request_leader_epoch: int, current_leader_epoch: int) -> Errors:
    error = RULES.stop_replica_error(request_leader_epoch, current_leader_epoch)
    return Errors.STALE_CONTROLLER_EPOCH if error else error


def _only_the_past_is_refused(request_leader_epoch: int, current_leader_epoch: int) -> Errors:
    error = RULES.client_epoch_error(request_leader_epoch, current_leader_epoch)
    return Errors.NONE if error is Errors.UNKNOWN_LEADER_EPOCH else error


FENCING: Final = (
    Mutant(
        name="skip-controller-epoch-check",
        says="LeaderAndIsr and StopReplica of a deposed controller are applied",
        stands_for="KIP-291, motivation: a zombie controller is obeyed",
        scenario="zombie-controller",
        found_by="fencing",
        rule="stale-controller-epoch-accepted",
        breaks={"controller_epoch_is_stale": _never_stale},
    ),
    Mutant(
        name="skip-broker-epoch-check",
        says="control requests for this broker's previous registration are applied",
        stands_for="KAFKA-7235 (KIP-380): a broker that bounced obeys what was sent before",
        scenario="zombie-broker",
        found_by="fencing",
        rule="stale-broker-epoch-accepted",
        breaks={"broker_epoch_is_stale": _never_stale},
    ),
    Mutant(
        name="skip-leader-epoch-check",
        says="LeaderAndIsr and StopReplica with an older leader epoch are applied",
        stands_for="KAFKA-9539 (KIP-570): a StopReplica that comes late is obeyed",
        scenario="zombie-broker",
        found_by="fencing",
        rule="stale-leader-epoch-accepted",
        breaks={"leader_and_isr_error": _no_epoch_error, "stop_replica_error": _no_epoch_error},
    ),
    Mutant(
        name="stale-metadata-regress",
        says="UpdateMetadata of a deposed controller overwrites newer metadata",
        stands_for="KIP-291: an old UpdateMetadata is taken in after a newer one",
        scenario="zombie-broker",
        found_by="stale-metadata",
        rule="metadata-went-back",
        breaks={"metadata_epoch_is_stale": _never_stale},
    ),
    Mutant(
        name="skip-controller-znode-check",
        says="a controller's writes to ZooKeeper do not ask whether it was succeeded",
        stands_for="KAFKA-6082: ZooKeeper is not told which controller writes",
        scenario="controller-pause",
        found_by="succession",
        rule="decided-after-succession",
        breaks={"checks_controller_znode": no},
    ),
    Mutant(
        name="refuse-newer-broker-epoch",
        says="a broker keeps the epoch of its first registration and refuses any other",
        stands_for="KAFKA-9839: newer broker epochs are refused",
        scenario="zombie-broker",
        found_by="refusals",
        rule="current-epoch-refused",
        breaks={"broker_epoch_is_stale": _is_another_epoch, "known_broker_epoch": _first_epoch},
    ),
    Mutant(
        name="apply-what-is-refused",
        says="a LeaderAndIsr that is refused for its leader epoch is applied all the same",
        stands_for="KIP-380: a refusal must be all that comes of a stale request",
        scenario="zombie-broker",
        found_by="refusals",
        rule="refused-but-applied",
        breaks={"applies_in_spite_of": _if_stale},
    ),
    Mutant(
        name="refuse-with-another-error",
        says="a StopReplica with an old leader epoch is refused as that of an old controller",
        stands_for="KAFKA-9539 (KIP-570): FENCED_LEADER_EPOCH",
        scenario="zombie-broker",
        found_by="refusals",
        rule="refused-with-wrong-error",
        breaks={"stop_replica_error": _stop_with_another_error},
    ),
    Mutant(
        name="never-register-again",
        says="a broker whose ZooKeeper session is over does not register again",
        stands_for="KAFKA-7165: the broker znode could not be created again",
        scenario="zombie-broker",
        found_by="recovery",
        rule="never-back",
        breaks={"registers_again": no},
    ),
    Mutant(
        name="serve-unheard-epochs",
        says="a broker serves who knows of a later leader epoch than it has heard of",
        stands_for="KIP-320: UNKNOWN_LEADER_EPOCH, until the broker has heard of it",
        scenario="leader-handover",
        found_by="offsets",
        rule="unheard-epoch-served",
        breaks={"client_epoch_error": _only_the_past_is_refused},
    ),
)
