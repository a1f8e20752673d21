"""``biplane probe``: what could be run and judged in a cluster that runs already.

Everything is found out by reading (`harness.sut.external.asked`): no topic is made, no command is
run, no znode is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from harness.arms import lacks_of, plan_of
from harness.runtime.protocol import Runtime
from harness.runtime.select import get_runtime
from harness.scenarios import SCENARIOS
from harness.scenarios.base import Scenario, checks_for, unjudged
from harness.settings import Settings
from harness.sut.external.asked import BrokerSeen, obstacles, unknown, warnings
from harness.sut.external.form import COMMANDS
from harness.sut.external.system import ExternalSystem
from harness.sut.protocol import limits_of
from nodes.wire.apis import ApiKey

READY: Final = 0
IN_THE_WAY: Final = 1
NO_ANSWER: Final = 2
_TOLD: Final = (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA, ApiKey.ELECT_LEADERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Playable:
    """One scenario. ``how``: full, part (some faults are skipped), no."""

    scenario: str
    how: str
    why_not: Sequence[str]
    faults: Sequence[str]
    skipped: Mapping[str, str]
    """By fault: why."""
    judged: Sequence[str]
    not_judged: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """All that was found out. Plain data."""

    cluster: str
    file: str
    exit_code: int
    brokers: Sequence[Mapping[str, Any]]
    zookeeper: Mapping[str, Any] | None
    session_timeout_ms: int
    no_answer: Sequence[str]
    in_the_way: Sequence[str]
    notes: Sequence[str]
    scenarios: Sequence[Playable]


def probed(sut: ExternalSystem, settings: Settings) -> Probed:
    """Ask, and work out what follows. ``settings``: whose plans are drawn."""
    form, seen = sut.form, sut.seen
    silent, obstructed = list(unknown(form, seen)), list(obstacles(form, seen))
    runtime = get_runtime(settings.runtime)
    try:
        scenarios = [_scenario(sut, one, settings, runtime) for one in SCENARIOS.values()]
    finally:
        runtime.close()
    any_playable = any(one.how != "no" for one in scenarios)
    code = NO_ANSWER if silent else IN_THE_WAY if obstructed or not any_playable else READY
    known = seen.zookeeper
    return Probed(
        cluster=sut.name,
        file=str(sut.file),
        exit_code=code,
        brokers=[_broker(sut, broker) for broker in seen.brokers.values()],
        zookeeper=None
        if known is None
        else {
            "failure": known.failure,
            "controller": known.controller,
            "controller_epoch": known.controller_epoch,
            "brokers": list(known.brokers),
        },
        session_timeout_ms=sut.session_timeout_ms,
        no_answer=silent,
        in_the_way=obstructed,
        notes=list(warnings(form, seen)),
        scenarios=scenarios,
    )


def _broker(sut: ExternalSystem, broker: BrokerSeen) -> dict[str, Any]:
    ways = sut.form.ways
    return {
        "id": broker.node,
        "address": str(broker.address),
        "failure": broker.failure,
        "advertises": broker.members.get(broker.node),
        "names_controller": broker.controller,
        "apis": {
            api.display_name: list(broker.apis[api]) for api in _TOLD if int(api) in broker.apis
        },
        "configs": dict(broker.configs),
        "configs_failure": broker.configs_failure,
        "commands": [name for name in COMMANDS if getattr(ways, name)],
        "partitions": len(broker.partitions),
    }


def _scenario(
    sut: ExternalSystem, scenario: Scenario, settings: Settings, runtime: Runtime
) -> Playable:
    lacks = list(lacks_of(scenario, settings, sut, runtime))
    kept, skipped = sut.playable(plan_of(scenario, settings))
    silent = unjudged(scenario.checks, sut)
    configs = sorted(scenario.overrides)
    if configs:
        silent = {**silent, "configs": f"it is not told {', '.join(configs)}"}
    asked = checks_for(scenario.checks, [sut.capabilities])
    return Playable(
        scenario=scenario.name,
        how="no" if lacks else "part" if skipped else "full",
        why_not=lacks,
        faults=sorted({entry.fault for entry in kept.entries}),
        skipped={entry.fault: why for entry, why in skipped},
        judged=[name for name in asked if name not in limits_of(sut).unjudged],
        not_judged=silent,
    )


def in_words(found: Probed) -> Iterator[str]:
    """For people."""
    yield f"{found.cluster} ({found.file})"
    for broker in found.brokers:
        yield f"  broker {broker['id']} at {broker['address']}: {_of_broker(broker)}"
    if found.zookeeper is not None and found.zookeeper["failure"] is None:
        known = found.zookeeper
        yield f"  ZooKeeper: controller {known['controller']}, epoch {known['controller_epoch']}"
    yield f"  a silent broker is given up after {found.session_timeout_ms} ms"
    for line in found.no_answer:
        yield f"  no answer: {line}"
    for line in found.in_the_way:
        yield f"  in the way: {line}"
    for line in found.notes:
        yield f"  note: {line}"
    if all(broker["failure"] is not None for broker in found.brokers):
        yield "  none of its brokers answers, so nothing is known of what can be played there"
        return
    for one in found.scenarios:
        if one.how == "no":
            yield f"  no    {one.scenario}: {'; '.join(one.why_not)}"
            continue
        yield f"  {one.how:<5} {one.scenario}: {', '.join(one.faults) or 'no faults'}"
        for fault, why in one.skipped.items():
            yield f"          without {fault}: {why}"
    yield from _of_checks(found.scenarios)
    says = {READY: "ready", IN_THE_WAY: "not ready", NO_ANSWER: "not known"}
    yield f"  {says[found.exit_code]}"


def _of_broker(broker: Mapping[str, Any]) -> str:
    if broker["failure"] is not None:
        return f"no answer: {broker['failure']}"
    versions = ", ".join(f"{name} {low}-{high}" for name, (low, high) in broker["apis"].items())
    commands = ", ".join(broker["commands"]) or "none"
    untold = broker["configs_failure"]
    more = f"; its settings are not told ({untold})" if untold else ""
    return f"advertises {broker['advertises']}; {versions}; commands: {commands}{more}"


def _of_checks(scenarios: Sequence[Playable]) -> Iterator[str]:
    """Each promise once, however many scenarios hold a cluster to it."""
    played = [one for one in scenarios if one.how != "no"]
    judged = sorted({name for one in played for name in one.judged})
    if judged:
        yield f"  judged: {', '.join(judged)}"
    silent: dict[str, str] = {}
    for one in played:
        for name, why in one.not_judged.items():
            silent.setdefault(f"{name} ({one.scenario})" if name == "configs" else name, why)
    for name, why in sorted(silent.items()):
        yield f"  not judged: {name}: {why}"
