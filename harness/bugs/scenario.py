"""A bug as a scenario: its topics laid out for the cluster at hand, its load, its plan as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from faults.plan import Plan
from harness.bugs.book import Bug, TopicSpec
from harness.scenarios.base import (
    LOG_APPEND_TIME,
    Role,
    Scenario,
    Stage,
    Topic,
    led_by,
    replicated_load,
    spread,
    static_member,
)
from harness.settings import Profile


def scenario_of(bug: Bug, extra: Mapping[str, str]) -> Scenario:
    """``extra``: broker configs on top of the bug's own."""
    return Scenario(
        name=bug.id.lower(),
        conjecture=f"{bug.title} ({bug.id}) does not happen.",
        planes=(bug.planes,),
        needs=bug.plan.needs(),
        topics=partial(_topics, bug),
        workloads=partial(_workloads, bug),
        plan=lambda _rng, _profile: bug.plan,
        checks=("truncation-loss", "stale-metadata", "polls", *bug.checks),
        leader_changes=bug.leader_changes,
        overrides={**bug.config, **extra},
        session_timeout_ms=bug.load.session_timeout_ms,
        quiesce_s=bug.load.quiesce_s,
    )


def profile_of(bug: Bug) -> Profile:
    """How long its run lasts: as long as its file says."""
    load = bug.load
    return Profile(
        name="bug",
        chaos_s=load.chaos_s,
        warmup_s=2.0,
        settle_s=load.settle_s,
        rounds=1,
        says="as long as the bug's file says",
    )


def plan_of(bug: Bug, seed: int) -> Plan:
    """The file's entries, drawing from ``seed`` where they draw."""
    return Plan(seed, bug.plan.entries)


def _topics(bug: Bug, stage: Stage) -> Sequence[Topic]:
    return [
        Topic(
            name=name,
            assignment=_assignment(spec, stage),
            configs={**LOG_APPEND_TIME, **spec.configs},
        )
        for name, spec in bug.topics.items()
    ]


def _assignment(spec: TopicSpec, stage: Stage) -> dict[int, list[int]]:
    """``victim`` leads with the controller last in line; a controller that leads has the victim
    next."""
    if spec.leader == "spread":
        return spread(spec.partitions, stage.nodes, spec.replicas)
    if spec.leader == "apart":
        apart = [node for node in stage.nodes if node != stage.controller]
        return spread(spec.partitions, apart, spec.replicas)
    others = list(stage.others)
    leader = stage.victim
    if spec.leader == "controller":
        leader, others = stage.controller, [stage.victim, *others[:-1]]
    return {
        partition: replicas[: spec.replicas]
        for partition, replicas in led_by(leader, others, spec.partitions).items()
    }


def _workloads(bug: Bug, _stage: Stage) -> Sequence[Role]:
    topic = bug.load.topic
    partitions = bug.topics[topic].partitions
    rates = {-1: bug.load.acks_all_per_s, 1: bug.load.acks_one_per_s}
    roles = []
    for role in replicated_load(topic, partitions):
        if role.role != "producer":
            roles.append(role)
        elif rates[role.params["acks"]]:
            params = {**role.params, "rate_per_s": rates[role.params["acks"]]}
            roles.append(replace(role, params=params))
    for number in range(1, bug.load.static_members + 1):
        roles.append(static_member(f"member-{number}", "statics", {topic: partitions}))
    return roles
