"""By which listener controllers speak while a cluster is given its control plane, for
`checkers.promises.planes`.

In KIP-291's upgrade brokers have the listener from round 1 on, and use it from round 2 on: a
controller that was started with the name speaks to every broker by that one's control listener
(ControllerChannelManager), also to who has no name yet and serves it with its data plane; one that
was not speaks by the listener between brokers, also to who has a control plane by then.

- ``past-its-listener``: a controller spoke by the one when it was to speak by the other.

Who was started after round 1 has the name (fault ``plane-upgrade``, ``round_ends_ns``). Which
listener is which the planes tell of who has the name: no control plane, no verdict.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.control_requests import CONTROL_APIS
from checkers.facts.details import details
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "past-its-listener"
UPGRADE: Final = "plane-upgrade"
Trial = tuple[str, int]


def past_its_listener(history: History) -> Iterator[tuple[Finding, int]]:
    """By controller, term, broker and listener: the first, and how many there were."""
    rounds = _rounds(history)
    if not rounds or not history.has("control_request"):
        return
    started: dict[tuple[str, int, int], list[int]] = {}
    for row in history.rows("node_event"):
        if row["event"] == "start":
            started.setdefault((row["arm"], row["trial"], row["node"]), []).append(row["t"])
    spoken = _spoken(history)
    control = {(*_trial(row), row["listener"]) for row in spoken if row["plane"] == "control"}
    for row in sorted(spoken, key=lambda row: row["t"]):
        trial, lives = _trial(row), started.get((*_trial(row), row["controller_id"]), [])
        known = any(one[:2] == trial for one in control)
        born = bisect_right(lives, row["t"])
        if trial not in rounds or not known or not born or row["t"] > rounds[trial][-1]:
            continue
        has_name = lives[born - 1] > rounds[trial][0]
        if has_name != ((*trial, row["listener"]) in control):
            yield _finding(row, has_name=has_name), row["n"]


def _trial(row: dict[str, Any]) -> Trial:
    return row["arm"], row["trial"]


def _rounds(history: History) -> dict[Trial, list[int]]:
    """When the rounds of an upgrade were over (ns), of those that came to their end."""
    found: dict[Trial, list[int]] = {}
    for row in history.rows("fault"):
        ends = details(row).get("round_ends_ns") if row["fault"] == UPGRADE else None
        if ends and row["phase"] == "injected" and row["took_hold"]:
            found[row["arm"], row["trial"]] = ends
    return found


def _spoken(history: History) -> list[dict[str, Any]]:
    """Controllers' own requests: a forger's and a prober's client id is none of a broker's."""
    own = history.frame("control_request").where(F.col("api").isin(*CONTROL_APIS))
    own = own.where("client_id = cast(controller_id as string) and listener is not null")
    names = ("arm", "trial", "node", "controller_id", "controller_epoch", "plane", "listener")
    return list(
        own.groupBy(*names)
        .agg(F.min("t").alias("t"), F.count("*").alias("n"))
        .toArrow()
        .to_pylist()
    )


def _finding(row: dict[str, Any], *, has_name: bool) -> Finding:
    own = {"node": row["node"], "controller_epoch": row["controller_epoch"]}
    why = "though it was started with" if has_name else "though it was started without"
    return Finding(
        RULE,
        f"controller {row['controller_id']} spoke to node {row['node']} by its listener "
        f"{row['listener']}, {why} the control plane's name",
        row["arm"],
        row["trial"],
        (
            Pick("fault", {"fault": UPGRADE, "phase": "injected"}, rows=1),
            Pick("node_event", {"node": row["controller_id"], "event": "start"}, to_t=row["t"],
                 last=True, rows=1),
            Pick("control_request", {**own, "listener": row["listener"]}, rows=1),
        ),
    )  # fmt: skip
