"""Every fault by its name in a plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from faults.altered_topic import AlterTopic
from faults.base import BaseFault
from faults.behind_the_epoch import BehindTheEpoch
from faults.broker_config import BrokerConfig
from faults.churn import ControllerChurn, LeadershipChurn, TopicChurn
from faults.contrary_orders import ContraryOrders
from faults.cpu_limit import CpuLimit
from faults.crossed_epochs import CrossedEpochs
from faults.deletion import DeleteTopic, DeleteTopicAway, DeleteTopicMoving, RecreateTopic
from faults.depose_controller import DeposeController
from faults.disconnect import Disconnect
from faults.disk_full import DiskFull
from faults.diverging_fetch import DivergingFetch
from faults.empty_epoch import EmptyEpoch
from faults.errors import PlanError
from faults.failed_disk import FailDisk
from faults.failover import DoubleFailover
from faults.flood.connections import ConnectionStorm, HeldConnections
from faults.flood.fetch import FetchFlood
from faults.flood.metadata import MetadataFlood
from faults.flood.produce import HeavyProduceFlood, ProduceFlood
from faults.forged_requests import ForgedRequests
from faults.forgotten_expansion import ForgottenExpansion
from faults.forsaken_orders import ForsakenOrders
from faults.frames import FramesFault
from faults.growth import GrowTopic, UnseenGrowth
from faults.hung_broker import HungBroker
from faults.idle_elections import IdleElections
from faults.isr_lag import IsrLag
from faults.isr_lag_succeeded import IsrLagSucceeded
from faults.joint_death import JointDeath
from faults.lagging import (
    LaggedKill,
    LaggedMove,
    LaggingFollower,
    UnansweredKill,
    UnevenFailover,
)
from faults.last_in_sync import LastInSync
from faults.last_standing import LastStanding
from faults.late_epoch_answer import LateEpochAnswer
from faults.late_registration import LateRegistration
from faults.leadership import MoveLeadership
from faults.leading_again import LeadingAgain
from faults.memory_limit import MemoryLimit
from faults.moved_while_asking import MovedWhileAsking
from faults.namesake import Namesake
from faults.network import Isolate, LinkDown, Toxic
from faults.oust_controller import OustController
from faults.outdated_expansion import OutdatedExpansion
from faults.outlived_answer import OutlivedAnswer
from faults.packet_cut import PacketCut
from faults.plane_upgrade import PlaneUpgrade
from faults.protocol import Entry
from faults.reassignment import Reassign, ReassignCalledOff, ReassignSucceeded
from faults.remove_controller import RemoveController
from faults.reorder import Reorder
from faults.restart import Kill, Pause, RepeatedKill, RollingRestart, Stop
from faults.stopped_ahead import StoppedAhead
from faults.torn_tail import TornTail
from faults.unclean_allowed import UncleanAllowed
from faults.unheard_election import UnheardElection
from faults.unheard_news import UnheardNews
from faults.unready_preferred import UnreadyPreferred
from faults.unseen_bounce import UnseenBounce
from faults.unseen_settings import UnseenSettings
from faults.wiped_disk import WipeDisk
from faults.zombie_controller import ZombieController

FAULTS: Final[Mapping[str, type[BaseFault]]] = {
    fault.name: fault
    for fault in (
        ProduceFlood,
        HeavyProduceFlood,
        MetadataFlood,
        FetchFlood,
        ConnectionStorm,
        HeldConnections,
        Stop,
        Kill,
        Pause,
        RollingRestart,
        RepeatedKill,
        LaggedKill,
        LaggedMove,
        UnansweredKill,
        LaggingFollower,
        UnevenFailover,
        LeadingAgain,
        CrossedEpochs,
        IsrLag,
        IsrLagSucceeded,
        LastInSync,
        UncleanAllowed,
        BehindTheEpoch,
        DoubleFailover,
        JointDeath,
        TornTail,
        WipeDisk,
        FailDisk,
        OutdatedExpansion,
        LastStanding,
        LateEpochAnswer,
        MovedWhileAsking,
        EmptyEpoch,
        ForgottenExpansion,
        OutlivedAnswer,
        DivergingFetch,
        StoppedAhead,
        PlaneUpgrade,
        BrokerConfig,
        MoveLeadership,
        UnreadyPreferred,
        IdleElections,
        Reassign,
        ReassignSucceeded,
        ReassignCalledOff,
        ContraryOrders,
        ForsakenOrders,
        Reorder,
        ZombieController,
        DeposeController,
        OustController,
        RemoveController,
        LateRegistration,
        UnseenBounce,
        UnheardElection,
        UnheardNews,
        UnseenSettings,
        HungBroker,
        ForgedRequests,
        Toxic,
        LinkDown,
        Isolate,
        FramesFault,
        Disconnect,
        PacketCut,
        CpuLimit,
        MemoryLimit,
        DiskFull,
        TopicChurn,
        DeleteTopic,
        DeleteTopicAway,
        DeleteTopicMoving,
        RecreateTopic,
        Namesake,
        GrowTopic,
        UnseenGrowth,
        AlterTopic,
        LeadershipChurn,
        ControllerChurn,
    )
}


def build(entry: Entry) -> BaseFault:
    """The fault of a plan entry; `PlanError` when there is none or its parameters are wrong."""
    kind = FAULTS.get(entry.fault)
    if kind is None:
        raise PlanError(
            f"{entry.fault!r} is not allowed; allowed: {', '.join(FAULTS)}",
            entry=entry.id,
            field="fault",
        )
    return kind.from_entry(entry)
