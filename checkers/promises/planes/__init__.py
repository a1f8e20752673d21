"""Planes: is the arm what its name says?

Guarantee: with dual planes a controller's requests travel over the control listener to each broker
and are served by the control plane, and nothing else does; with one plane there is no control
plane. A figure that compares planes means nothing otherwise.

Violations, with dual planes:
- ``control-request-on-data-plane``: a broker handled, on its data plane, a request that a
  controller says that it sent (same controller, broker, api, number and controller epoch). What
  probers and forgers send is their own business: a forger's row names its number and client;
  Or its data plane counted more such requests than probers and forgers had sent there;
- ``broker-request-on-data-plane``: so with what brokers alone ask, of the controller alone
  (AlterPartition);
- ``controller-past-the-control-listener``: a node sent control requests to a broker for seconds on
  end and the kernel never saw it connected to that broker's control link. Nobody's own word;
- ``data-on-control-plane``: a node that never was the controller was connected to the control link
  of another that never was (a follower that was told the wrong endpoint); or a control plane served
  an API that neither controllers nor brokers that turn to the controller use;
- ``waits-behind-data``: under a flood, requests to a broker's control plane took as long as those
  to its data plane (`behind_data`);
- ``answer-held``: answers of a control plane are ready, and do not leave (`held_answers`);
- ``handled-together``: a control plane, which has one handler, handles two requests at once
  (`one_handler`);
- ``hung-up``: a broker closes a connection unasked, of who waits or of its controller (`hung_up`);
  with any planes;
- ``plane-metric-otherwise``: under a flood what KIP-291's metrics say of a plane is not what was
  asked of that plane (`metrics`); with any planes;
- ``at-rest-otherwise``: once the load has ended, of a control plane that nobody asks;
- ``queue-overfull``: and more requests wait in a queue than it has places.
With any other planes: ``control-plane-unasked``, a request was handled by a control plane, or
counted by one.

Unknown: a broker that answered a controller for a while and tells of no request that it handled; a
broker that tells of no use of its planes where others do; a trial in which nobody looked at
connections where somebody did in others.

Lawful and alike: brokers turn to the controller (AlterPartition, AllocateProducerIds, topics made
on demand) by its control listener where there is one (MetadataCacheControllerNodeProvider). Kafka
refuses no API on either listener, so a stranger may bootstrap to the control port (KIP-702); in a
run nobody is told to. A zombie is a controller too: who once was elected may hold connections.
A cluster that is given its control plane while it runs (fault ``plane-upgrade``) is lawfully mixed
until the last broker is back: only what comes after that is judged, but for ``past-its-listener``,
by which of its two listeners a controller speaks to a broker meanwhile (`mixed`).
Blind: a connection that lived shorter than the second between two looks; a controller that leaves
the control listener once it had been connected to it (whose link is down says that it sends, too,
and is connected to nobody); planes of a system whose
controller's requests nobody records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.calm import brokers
from checkers.facts.details import details
from checkers.facts.tellers import tellers
from checkers.facts.timeline import ALWAYS, FOREVER, FROM, TO, Timeline
from checkers.facts.told_numbers import total
from checkers.judging.outcome import Outcome
from checkers.judging.promise import Promise
from checkers.judging.witness import Finding, Pick
from checkers.promises.planes.behind_data import ANSWERED, PROBED, behind_data
from checkers.promises.planes.held_answers import READY, held_answers
from checkers.promises.planes.hung_up import RULE as HUNG_UP
from checkers.promises.planes.hung_up import hung_up
from checkers.promises.planes.metrics import RESTED, RESTLESS, TOLD, plane_metrics
from checkers.promises.planes.mixed import UPGRADE, past_its_listener
from checkers.promises.planes.one_handler import RULE as TOGETHER
from checkers.promises.planes.one_handler import handled_together

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

OWN: Final = "controllers' own requests"
SEEN: Final = "brokers that a controller was seen connected to"
CONTROL_APIS: Final = ("LEADER_AND_ISR", "UPDATE_METADATA", "STOP_REPLICA")
_OF_BROKERS: Final = ("ALTER_PARTITION",)
"""What nobody but brokers asks, and they ask it of the controller only."""
_TO_THE_CONTROLLER: Final = (
    *("API_VERSIONS", "ALTER_PARTITION", "ALLOCATE_PRODUCER_IDS", "CREATE_TOPICS", "ENVELOPE"),
)
LONG_ENOUGH_NS: Final = 5_000_000_000
"""Connections are looked at once a second: who sent for so long was connected at some look. A busy
machine looks less often, so that some change has to have been seen in that time."""
_ONE_LIFE: Final = ("boot", "broker_epoch")
"""Of the sender and of whom he sends to: no connection outlives either."""
_IN_OFFICE: Final = ("controller", "created")
_ID: Final = ["arm", "trial", "api", "correlation_id", "controller_epoch"]
Trial = tuple[str, int]


def check(history: History) -> Outcome:
    outcome = Outcome()
    planes = {arm: facts.get("planes") for arm, facts in history.run.arms.items()}
    for row in _handled(history):
        arm, trial = row["arm"], row["trial"]
        outcome.saw(arm, trial, OWN, row["n"])
        figures = outcome.arm(arm).setdefault("handled_by_plane", {})
        figures[row["plane"]] = figures.get(row["plane"], 0) + row["n"]
        if planes.get(arm) == "dual" and row["plane"] == "data":
            outcome.add(_on_data_plane(row))
        elif planes.get(arm) not in ("dual", None) and row["plane"] == "control":
            outcome.add(_unasked(row, planes[arm]))
    able = {arm for arm in planes if history.run.can_be_judged(arm, "planes")}
    dual = {arm for arm, mode in planes.items() if mode == "dual" and arm in able}
    _connections(history, outcome, dual)
    _data_on_control(history, outcome, dual)
    _use_unasked(history, outcome, planes)
    _counted_on_data_plane(history, outcome, dual)
    for finding in behind_data(history, outcome, dual):
        outcome.add(finding)
    for finding in plane_metrics(history, outcome, planes, _elected(history)):
        outcome.add(finding)
    for finding, n in (
        *(*past_its_listener(history), *held_answers(history, outcome)),
        *(*handled_together(history), *hung_up(history, outcome)),
    ):
        outcome.add(finding, n)
    for trial, why in _silent(history):
        if trial[0] in able:
            outcome.unknown(*trial, why)
    return outcome


def _handled(history: History) -> list[dict[str, Any]]:
    """Controllers' own requests by (arm, trial, node, plane, listener), with one of each."""
    if not (history.has("control_request") and history.has("control_send")):
        return []
    sends = history.frame("control_send").select(
        *_ID, F.col("node").alias("controller_id"), F.col("to").alias("node")
    )
    rows = history.frame("control_request").where(F.col("api").isin(*CONTROL_APIS))
    rows = _upgraded(history, rows)
    own = rows.join(sends.distinct(), [*_ID, "controller_id", "node"], "left_semi")
    if history.has("forged"):
        names = ["arm", "trial", "node", "api", "correlation_id", "client_id"]
        own = own.join(history.frame("forged").select(*names).distinct(), names, "left_anti")
    found = own.groupBy("arm", "trial", "node", "plane", "listener").agg(
        F.count("*").alias("n"),
        F.min("t").alias("t"),
        F.min_by("correlation_id", "t").alias("correlation_id"),
        F.min_by("api", "t").alias("api"),
        F.min_by("controller_id", "t").alias("controller_id"),
    )
    return list(found.toArrow().to_pylist())


def _upgraded(history: History, rows: DataFrame) -> DataFrame:
    """Without the rows of trials whose brokers were still being given their control plane."""
    since: dict[Trial, int] = {}
    for row in history.rows("fault"):
        if row["fault"] == UPGRADE:
            place = (row["arm"], row["trial"])
            since[place] = max(since.get(place, 0), _upgraded_t(row))
    if not since:
        return rows
    mixed = [
        {"arm": arm, "trial": trial, FROM: ALWAYS, TO: t or FOREVER}
        for (arm, trial), t in since.items()
    ]
    found = Timeline(mixed, ("arm", "trial")).at(history, rows, F.col("t"))
    return found.where(F.col(FROM).isNull()).drop(FROM, TO)


def _upgraded_t(row: Mapping[str, Any]) -> int:
    """When the last restart of the last round was over, as the harness says; 0: not yet."""
    if row["phase"] != "injected":
        return 0
    ends = details(row).get("round_ends_ns")
    return int(ends[-1]) if ends else int(row["t"])


# -- who was connected to what ------------------------------------------------------------------


def _connections(history: History, outcome: Outcome, dual: set[str]) -> None:
    """What the controllers said that they sent, against where the kernel saw them connected."""
    if not history.has("control_send"):
        return
    looks: dict[tuple[str, int], list[int]] = {}
    for row in history.rows("connection"):
        looks.setdefault((row["arm"], row["trial"]), []).append(row["t"])
    connected = {
        (row["arm"], row["trial"], row["node"], row["to"])
        for row in history.rows("connection")
        if row["link"] == "control" and row["connections"]
    }
    pair = ("arm", "trial", "node", "to")
    sent = _upgraded(history, history.frame("control_send"))
    lives = sent.groupBy(*pair, *_ONE_LIFE).agg(
        F.min("t").alias("from_t"), F.max("t").alias("to_t"), F.count("*").alias("n")
    )
    longest = lives.groupBy(*pair).agg(
        *(F.max_by(name, F.expr("to_t - from_t")).alias(name) for name in ("from_t", "to_t", "n"))
    )
    for row in longest.toArrow().to_pylist():
        place = (row["arm"], row["trial"])
        if row["arm"] not in dual:
            continue
        if place not in looks:
            outcome.unjudged(row["arm"], "where controllers connected: nobody looked")
        elif (*place, row["node"], row["to"]) in connected:
            outcome.saw(*place, SEEN)
        elif row["to_t"] - row["from_t"] >= LONG_ENOUGH_NS:
            if any(row["from_t"] < t <= row["to_t"] for t in looks[place]):
                outcome.add(_past_the_listener(row))
            else:
                what = "where a controller connected: nothing shows that anybody looked meanwhile"
                outcome.unjudged(row["arm"], what)


def _data_on_control(history: History, outcome: Outcome, dual: set[str]) -> None:
    elected = _elected(history)
    judged = {place[:2] for place in elected if place[0] in dual}
    for arm, trial in history.trials:
        if arm in dual and (arm, trial) not in judged:
            outcome.unjudged(
                arm, f"trial {trial}, who connected to control listeners: no controller is known"
            )
    told: set[tuple[str, int, int, int]] = set()
    for row in history.rows("connection"):
        place = (row["arm"], row["trial"], row["node"], row["to"])
        strange = row["link"] == "control" and row["connections"]
        strange = strange and not elected & {place[:3], (*place[:2], row["to"])}
        if strange and place[:2] in judged and place not in told:
            told.add(place)
            outcome.add(_strangers_connection(row))
    for row in _used(history, "control"):
        if row["api"] not in (*CONTROL_APIS, *_TO_THE_CONTROLLER):
            outcome.add(_served_data(row))


def _used(history: History, plane: str, *, since_upgrade: bool = False) -> Iterator[dict[str, Any]]:
    """What brokers counted on a plane: arm, trial, node, listener, api, n, and the first ``t``.
    ``since_upgrade``: only of when they had been given their control plane, where they were."""

    def make() -> list[dict[str, Any]]:
        use = history.frame("plane_use").where("requests > 0 and api is not null")
        names = ("arm", "trial", "node", "listener", "api", "plane")

        def summed(rows: DataFrame, late: bool) -> DataFrame:
            by = rows.groupBy(*names, F.lit(late).alias("late"))
            return by.agg(total("requests").alias("n"), F.min("t").alias("t"))

        found = summed(use, False).unionAll(summed(_upgraded(history, use), True))
        return list(found.toArrow().to_pylist())

    if history.has("plane_use"):
        for row in history.memo("use of planes", make):
            if row["plane"] == plane and row["late"] == since_upgrade:
                yield row


def _counted_on_data_plane(history: History, outcome: Outcome, dual: set[str]) -> None:
    """Control requests, and brokers' to the controller, that data planes counted, beyond those that
    probers and forgers sent there: nobody else sends any."""
    counted = [
        row
        for row in _used(history, "data", since_upgrade=True)
        if row["api"] in (*CONTROL_APIS, *_OF_BROKERS) and row["arm"] in dual
    ]
    if not counted:
        return
    sent: Counter[tuple[str, int, int, str]] = Counter()
    for kind in ("probe", "forged"):
        if history.has(kind):
            there = history.frame(kind).where("plane is null or plane = 'data'")
            for row in there.groupBy("arm", "trial", "node", "api").count().toArrow().to_pylist():
                sent[row["arm"], row["trial"], row["node"], row["api"]] += row["count"]
    for row in counted:
        others = sent[row["arm"], row["trial"], row["node"], row["api"]]
        if row["n"] > others:
            says = f"node {row['node']}'s data plane served {row['n']} {row['api']} requests"
            says += f", {others} of which probers and forgers had sent" if others else ""
            where = {"node": row["node"], "plane": "data", "api": row["api"]}
            picks = (Pick("plane_use", where, rows=3),)
            whose = "broker" if row["api"] in _OF_BROKERS else "control"
            rule = f"{whose}-request-on-data-plane"
            outcome.add(Finding(rule, says, row["arm"], row["trial"], picks))


def _use_unasked(history: History, outcome: Outcome, planes: Mapping[str, Any]) -> None:
    """What control planes counted, where there are to be none."""
    for row in _used(history, "control"):
        if planes.get(row["arm"]) not in ("dual", None):
            outcome.add(_counted_unasked(row, planes[row["arm"]]))


def _silent(history: History) -> Iterator[tuple[Trial, str]]:
    """Who must have had something to say, and did not."""
    if history.has("control_response") and history.has("control_request"):
        answered = history.frame("control_response").where("error is not null")
        spans = answered.groupBy("arm", "trial", F.col("to").alias("node")).agg(
            F.count("*").alias("n"), F.min("t").alias("from_t"), F.max("t").alias("to_t")
        )
        told = history.frame("control_request").select("arm", "trial", "node").distinct()
        for row in spans.join(told, ["arm", "trial", "node"], "left_anti").toArrow().to_pylist():
            if row["to_t"] - row["from_t"] >= LONG_ENOUGH_NS:
                says = f"node {row['node']} answered {row['n']} requests of controllers"
                yield (row["arm"], row["trial"]), f"{says}, and tells of none that it handled"
    telling = tellers(history, "plane_use")
    for trial, nodes in sorted(brokers(history).items()):
        for node in sorted(nodes - telling.get(trial, nodes)):
            yield trial, f"node {node} tells of no use of its planes, as others do"
    if history.has("probe"):
        asked = history.frame("probe").where("plane is not null")
        for row in asked.groupBy("arm", "trial", "plane").count().toArrow().to_pylist():
            mode = history.run.arms.get(row["arm"], {}).get("planes")
            if row["plane"] == "control" and mode not in ("dual", None):
                says = f"{row['count']} probes were sent to control listeners, of which there are"
                yield (row["arm"], row["trial"]), f"{says} to be none"
    looked_at = {(row["arm"], row["trial"]) for row in history.rows("connection")}
    for what, there in (
        ("counted what planes served", telling),
        ("looked at connections", looked_at),
    ):
        able = {_system(history, trial) for trial in there}
        for trial in history.trials:
            if trial not in there and _system(history, trial) in able:
                yield trial, f"nobody {what}, as somebody did in other trials"


def _system(history: History, trial: Trial) -> Any:
    return history.run.arms.get(trial[0], {}).get("sut")


def _elected(history: History) -> set[tuple[str, int, int]]:
    """(arm, trial, node) of everybody who ever was the controller: by his own word, and by
    ZooKeeper's."""
    own = [row for row in history.rows("controller") if row["event"] == "elected"]
    kept = [r for r in history.rows("zk_write") if (r["what"], r["step"]) == _IN_OFFICE]
    return {(row["arm"], row["trial"], row["node"]) for row in (*own, *kept)}


# -- findings -----------------------------------------------------------------------------------


def _on_data_plane(row: dict[str, Any]) -> Finding:
    return Finding(
        "control-request-on-data-plane",
        f"node {row['node']} handled {row['n']} of controller {row['controller_id']}'s requests on "
        f"its data plane (listener {row['listener']}), the first {row['api']}",
        row["arm"],
        row["trial"],
        _request(row),
    )


def _unasked(row: dict[str, Any], planes: Any) -> Finding:
    return Finding(
        "control-plane-unasked",
        f"node {row['node']} handled {row['n']} control requests on a control plane, although its "
        f"planes are to be {planes}",
        row["arm"],
        row["trial"],
        _request(row),
    )


def _counted_unasked(row: dict[str, Any], planes: Any) -> Finding:
    return Finding(
        "control-plane-unasked",
        f"node {row['node']} counted {row['n']} {row['api']} requests on a control plane, although "
        f"its planes are to be {planes}",
        row["arm"],
        row["trial"],
        (Pick("plane_use", {"node": row["node"], "plane": "control", "api": row["api"]}, rows=3),),
    )


def _request(row: dict[str, Any]) -> tuple[Pick, ...]:
    same = {"api": row["api"], "correlation_id": row["correlation_id"]}
    return (
        Pick("control_send", {**same, "to": row["node"]}, to_t=row["t"], last=True, rows=1),
        Pick("control_request", {**same, "node": row["node"]}, row["t"], row["t"], rows=1),
    )


def _past_the_listener(row: dict[str, Any]) -> Finding:
    seconds = (row["to_t"] - row["from_t"]) / 1e9
    between = {"node": row["node"], "to": row["to"]}
    return Finding(
        "controller-past-the-control-listener",
        f"controller {row['node']} sent {row['n']} requests to broker {row['to']} in "
        f"{seconds:.1f} s and was never connected to its control listener",
        row["arm"],
        row["trial"],
        (
            Pick("control_send", between, rows=1),
            Pick("connection", between, rows=4),
            Pick("control_send", between, last=True, rows=1),
        ),
    )


def _strangers_connection(row: dict[str, Any]) -> Finding:
    return Finding(
        "data-on-control-plane",
        f"node {row['node']} was connected to the control listener of broker {row['to']}; neither "
        "ever was the controller",
        row["arm"],
        row["trial"],
        (
            Pick("controller", {"event": "elected"}, rows=3),
            Pick("connection", {"node": row["node"], "to": row["to"]}, rows=3),
        ),
    )


def _served_data(row: dict[str, Any]) -> Finding:
    return Finding(
        "data-on-control-plane",
        f"node {row['node']}'s control plane served {row['n']} {row['api']} requests (listener "
        f"{row['listener']})",
        row["arm"],
        row["trial"],
        (Pick("plane_use", {"node": row["node"], "plane": "control", "api": row["api"]}, rows=3),),
    )


PROMISE: Final = Promise(
    name="planes",
    says="With dual planes controllers' requests, and nothing else, travel by the control plane.",
    source="KIP-291, proposed changes; SocketServer, ControllerChannelManager",
    rules={
        "control-request-on-data-plane": "A controller's request is served by the control plane.",
        "broker-request-on-data-plane": "What brokers ask of the controller is, too.",
        "controller-past-the-control-listener": "A controller connects to the control listener.",
        "data-on-control-plane": "Nothing but controllers' requests is served by a control plane.",
        "control-plane-unasked": "Where no control plane was asked for, there is none.",
        "past-its-listener": "While planes are introduced each controller uses its own listener.",
        "plane-metric-otherwise": "Metrics of a plane tell what was asked of that plane.",
        RESTLESS: "A control plane that nobody asks is idle, by its own metrics.",
        "queue-overfull": "No more requests wait in a plane's queue than it has places.",
        "waits-behind-data": "Requests to a control plane do not wait for those to the data plane.",
        "answer-held": "An answer of a control plane leaves when it is ready.",
        TOGETHER: "A control plane handles one request at a time.",
        HUNG_UP: "Nobody who waits loses its connection, and no controller that is silent.",
    },
    evidence={
        OWN: "requests that a controller sent and a broker handled",
        SEEN: "by the kernel's table of connections",
        PROBED: "that is to fill the data plane's queue",
        ANSWERED: "beside such a flood, by other brokers that nothing was done to",
        TOLD: "read twice, as such a flood set in and before it ended",
        RESTED: "read twice, once the load has ended; of who never was controller",
        READY: "by what brokers tell of their own way through",
    },
    unknown_when=(
        "no request of a controller was handled",
        "a broker that answered controllers, or was up, does not tell what it handled",
        "nobody looked at connections, though somebody did in other trials",
    ),
    blind=(
        "connections that lived shorter than a second",
        "a controller that was once connected to a control listener, and later goes another way: "
        "while a link is down it says that it sends, and is connected to nobody",
        "how soon a control plane answers, where nobody floods the data plane beside it",
        "metrics of data planes where no flood fills the queue, of control planes where none does, "
        "until the load has ended; of systems other than the bundled one",
        "whether a request's time in the queue (RequestQueueTimeMs) begins as it is read, or only "
        "as it has its place: for that as many wait as there are network threads, beside hundreds",
        "whether a control plane's queue has fewer than 20 places: no more than one request waits "
        "for each connection, and there are few",
        "systems whose controller's requests nobody records (KRaft)",
        "connections that a broker closes while nobody waits, of clients",
        "whether Apache Kafka's control plane handles one request at a time",
    ),
    timed=frozenset({"waits-behind-data", "plane-metric-otherwise", "answer-held"}),
    check=check,
)
