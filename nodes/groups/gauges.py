"""The gauges of the group coordinator, under Kafka's MBean names.

`TimerEntries` is biplane's own: what a timer holds in memory, cancelled deadlines included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nodes.groups.group import GroupState

if TYPE_CHECKING:
    from nodes.groups.coordinator import GroupCoordinator
    from nodes.metrics import Metrics

GROUP_METADATA: Final = "kafka.coordinator.group:type=GroupMetadataManager,name="
_PURGATORY: Final = "kafka.server:type=DelayedOperationPurgatory,name="


def register_gauges(metrics: Metrics, coordinator: GroupCoordinator) -> None:
    """Registers them all. Each is computed when somebody reads."""

    def of_state(state: GroupState) -> int:
        return coordinator.counts().states[state]

    metrics.gauge(GROUP_METADATA + "NumGroups", lambda: coordinator.counts().groups)
    metrics.gauge(GROUP_METADATA + "NumOffsets", lambda: coordinator.counts().offsets)
    for state in GroupState:
        name = f"{GROUP_METADATA}NumGroups{state.value}"
        metrics.gauge(name, lambda state=state: of_state(state))  # type: ignore[misc]
    timer, suffix = coordinator.timer, ",delayedOperation=Rebalance"
    metrics.gauge(_PURGATORY + "NumDelayedOperations" + suffix, lambda: timer.size)
    metrics.gauge(_PURGATORY + "TimerEntries" + suffix, lambda: timer.entries)
