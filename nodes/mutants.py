"""Planted bugs: single rules of `nodes.core.rules.Rules` swapped for wrong ones.

A checker that has never found anything proves nothing. Each mutant here is a bug that a broker
could plausibly have; in a whole run of its `scenario`, on a cluster that has it (config
``biplane.mutants``), the check named in `found_by` must find a violation, and none without it:
``biplane mutants`` plays them all. A correct broker runs `nodes.core.rules.RULES` and none of this.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from nodes.core.acks import ACKNOWLEDGED, Acknowledgement
from nodes.core.errors import Errors
from nodes.core.rules import RULES, Rules
from nodes.core.truncation import EpochEnd, Truncation


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """`says`: what the bug is, for reports; `scenario`: whose whole runs expose it; `found_by`: the
    check that must notice it there; `breaks`: which rules it replaces."""

    name: str
    says: str
    scenario: str
    found_by: str
    breaks: Mapping[str, Any]


class UnknownMutant(ValueError):
    """A name that is not in the registry; the message lists those that are."""


def _never_stale(_request_epoch: int, _known_epoch: int) -> bool:
    return False


def _no_epoch_error(_request_leader_epoch: int, _current_leader_epoch: int) -> Errors:
    return Errors.NONE


def _acknowledge_at_once(
    _required_offset: int, _high_watermark: int, _isr_size: int, _min_isr: int
) -> Acknowledgement:
    return ACKNOWLEDGED


def _keep_everything(
    _leader_end: EpochEnd, _own_end: EpochEnd, log_end_offset: int, _high_watermark: int
) -> Truncation:
    return Truncation(log_end_offset, True)


def _cut_to_high_watermark(
    _leader_end: EpochEnd, _own_end: EpochEnd, log_end_offset: int, high_watermark: int
) -> Truncation:
    return Truncation(min(high_watermark, log_end_offset), True)


def _no() -> bool:
    return False


def _anyone_may_join(_follower_end: int, _high_watermark: int, _epoch_start: int) -> bool:
    return True


def _read_to_the_end(_reads_log_end: bool, _high_watermark: int, log_end_offset: int) -> int:
    return log_end_offset


def _twice() -> int:
    return 2


_ALL: Final = (
    Mutant(
        name="skip-controller-epoch-check",
        says="LeaderAndIsr and StopReplica of a deposed controller are applied",
        scenario="zombie-controller",
        found_by="fencing",
        breaks={"controller_epoch_is_stale": _never_stale},
    ),
    Mutant(
        name="skip-broker-epoch-check",
        says="control requests for this broker's previous registration are applied",
        scenario="zombie-broker",
        found_by="fencing",
        breaks={"broker_epoch_is_stale": _never_stale},
    ),
    Mutant(
        name="skip-leader-epoch-check",
        says="LeaderAndIsr and StopReplica with an older leader epoch are applied",
        scenario="zombie-broker",
        found_by="fencing",
        breaks={"leader_and_isr_error": _no_epoch_error, "stop_replica_error": _no_epoch_error},
    ),
    Mutant(
        name="ack-before-replication",
        says="acks=all is acknowledged after the local append alone",
        scenario="leader-handover",
        found_by="truncation-loss",
        breaks={"acknowledgement": _acknowledge_at_once},
    ),
    Mutant(
        name="never-truncate",
        says="a follower keeps the records in which it differs from its leader",
        scenario="leader-handover",
        found_by="replicas",
        breaks={"truncation_for": _keep_everything},
    ),
    Mutant(
        name="truncate-to-high-watermark",
        says="a follower cuts at its own high watermark, as before KIP-101",
        scenario="leader-handover",
        found_by="truncation-loss",
        breaks={
            "truncation_for": _cut_to_high_watermark,
            "asks_leader_for_divergence": _no,
        },
    ),
    Mutant(
        name="no-isr-check",
        says="a follower that lags joins the ISR and may then be elected",
        scenario="returning-follower",
        found_by="truncation-loss",
        breaks={"may_join_isr": _anyone_may_join},
    ),
    Mutant(
        name="serve-above-high-watermark",
        says="consumers are served records that are not committed yet",
        scenario="leader-handover",
        found_by="polls",
        breaks={"readable_end": _read_to_the_end},
    ),
    Mutant(
        name="stale-metadata-regress",
        says="UpdateMetadata of a deposed controller overwrites newer metadata",
        scenario="zombie-broker",
        found_by="stale-metadata",
        breaks={"metadata_epoch_is_stale": _never_stale},
    ),
    Mutant(
        name="drop-torn-tail-check",
        says="after a crash the log's tail is trusted instead of checked",
        scenario="log-recovery",
        found_by="replicas",
        breaks={"verifies_log_tail": _no},
    ),
    Mutant(
        name="double-append",
        says="the leader writes every accepted batch twice",
        scenario="log-recovery",
        found_by="records",
        breaks={"appends_per_batch": _twice},
    ),
    Mutant(
        name="skip-controller-znode-check",
        says="a controller's writes to ZooKeeper do not ask whether it was succeeded",
        scenario="controller-pause",
        found_by="succession",
        breaks={"checks_controller_znode": _no},
    ),
)

MUTANTS: Final[Mapping[str, Mutant]] = MappingProxyType({m.name: m for m in _ALL})


def rules_with(names: Iterable[str]) -> Rules:
    """The correct rules with the named ones broken. Later names win where two break one rule."""
    rules = RULES
    for name in names:
        mutant = MUTANTS.get(name)
        if mutant is None:
            raise UnknownMutant(f"unknown mutant {name!r}; allowed: {', '.join(MUTANTS)}")
        rules = dataclasses.replace(rules, **mutant.breaks)
    return rules
