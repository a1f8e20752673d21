"""Members of groups that poll, and are given nothing; both ways."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from checkers.promises.groups import check
from tests.checkers.conftest import ARM, Story, judged_together

HEALED = 20_000
CALM = 30_000
"""What brokers may need where nobody saw them in sync, after it."""


def polled(
    *,
    until: float = 40_000,
    role: str = "group-consumer",
    healed: bool = True,
    groups: Mapping[str, str | None] = MappingProxyType({"m": None}),
) -> Story:
    told = Story()
    workloads = [
        {"process": process, "role": role, "topics": {"t": []}, **({"group": g} if g else {})}
        for process, g in groups.items()
    ]
    told.run["trials"] = [{"arm": ARM, "trial": n, "workloads": workloads} for n in range(12)]
    for t, phase in ((10_000, "inject"), (10_100, "injected"), (HEALED, "heal")):
        told.add("fault", t, fault="kill", id="k", phase=phase, nodes=[1], detail="{}")
    if healed:
        told.add("fault", HEALED, fault="kill", id="k", phase="healed", nodes=[1], detail="{}")
    for t in range(5_000, int(until), 500):
        for process in groups:
            told.add("fetch", t, process=process, poll=1, invoke_t=t - 200)
    return told


def given(t: float, groups: Mapping[str, str | None] = MappingProxyType({"m": None})) -> Story:
    told = polled(groups=groups)
    told.add("assignment", t, process="m", group="g", event="assigned")
    return told


CASES: dict[str, tuple[Callable[[], Story], int]] = {
    "never": (polled, 1),
    "given": (lambda: given(6_000), 0),
    "given at last": (lambda: given(39_000), 0),
    "not for long": (lambda: polled(until=CALM + 1_500), 0),
    "before all is calm": (lambda: polled(until=CALM - 500), 0),
    "a fault was never healed": (lambda: polled(healed=False), 0),
    "another group is given": (lambda: given(6_000, {"m": "g", "n": "h"}), 1),
    "another member of its group is": (lambda: given(6_000, {"m": "g", "n": "g"}), 0),
    "of two groups neither": (lambda: polled(groups={"m": "g", "n": "h", "o": "h"}), 2),
    "no member of a group": (lambda: polled(role="consumer"), 0),
}


def test_where_members_poll_some_are_given_something(spark: Any) -> None:
    found = judged_together(spark, check, {name: make() for name, (make, _) in CASES.items()})
    wrong = {name: rules.get("group-never-formed", 0) for name, (rules, _) in found.items()}
    assert wrong == {name: n for name, (_, n) in CASES.items()}
