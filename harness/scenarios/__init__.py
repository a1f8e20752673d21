"""The scenarios: one conjecture a file. A new one is registered here and nowhere else."""

from collections.abc import Mapping
from typing import Final

from harness.scenarios.acks1_truncation import ACKS1_TRUNCATION
from harness.scenarios.base import Scenario
from harness.scenarios.broker_restart import BROKER_RESTART
from harness.scenarios.controller_death import CONTROLLER_DEATH
from harness.scenarios.controller_pause import CONTROLLER_PAUSE
from harness.scenarios.disk_lost import DISK_LOST
from harness.scenarios.double_failover import DOUBLE_FAILOVER
from harness.scenarios.forgotten_watermark import FORGOTTEN_WATERMARK
from harness.scenarios.group_rebalance import GROUP_REBALANCE
from harness.scenarios.idle_elections import IDLE_ELECTIONS
from harness.scenarios.isr_by_lag import ISR_BY_LAG
from harness.scenarios.lagging_follower import LAGGING_FOLLOWER
from harness.scenarios.last_in_sync import LAST_IN_SYNC
from harness.scenarios.leader_handover import LEADER_HANDOVER
from harness.scenarios.leader_unavailability import LEADER_UNAVAILABILITY
from harness.scenarios.log_recovery import LOG_RECOVERY
from harness.scenarios.lone_broker import LONE_BROKER
from harness.scenarios.mixture import MIXTURE
from harness.scenarios.overloaded_controller import OVERLOADED_CONTROLLER
from harness.scenarios.preferred_leaders import PREFERRED_LEADERS
from harness.scenarios.reassignment import REASSIGNMENT
from harness.scenarios.request_flood import REQUEST_FLOOD
from harness.scenarios.returning_follower import RETURNING_FOLLOWER
from harness.scenarios.returning_leader import RETURNING_LEADER
from harness.scenarios.rolling_upgrade import ROLLING_UPGRADE
from harness.scenarios.topic_deletion import TOPIC_DELETION
from harness.scenarios.unheard_orders import UNHEARD_ORDERS
from harness.scenarios.zombie_broker import ZOMBIE_BROKER
from harness.scenarios.zombie_controller import ZOMBIE_CONTROLLER

SCENARIOS: Final[Mapping[str, Scenario]] = {
    scenario.name: scenario
    for scenario in (
        REQUEST_FLOOD,
        ACKS1_TRUNCATION,
        BROKER_RESTART,
        ZOMBIE_CONTROLLER,
        CONTROLLER_PAUSE,
        TOPIC_DELETION,
        LEADER_UNAVAILABILITY,
        ZOMBIE_BROKER,
        LEADER_HANDOVER,
        RETURNING_FOLLOWER,
        RETURNING_LEADER,
        LOG_RECOVERY,
        LAGGING_FOLLOWER,
        ISR_BY_LAG,
        LAST_IN_SYNC,
        FORGOTTEN_WATERMARK,
        DOUBLE_FAILOVER,
        CONTROLLER_DEATH,
        GROUP_REBALANCE,
        ROLLING_UPGRADE,
        DISK_LOST,
        REASSIGNMENT,
        IDLE_ELECTIONS,
        OVERLOADED_CONTROLLER,
        LONE_BROKER,
        UNHEARD_ORDERS,
        PREFERRED_LEADERS,
        MIXTURE,
    )
}

__all__ = ["SCENARIOS", "Scenario"]
