"""What run.json says of a trial's topics and clients, against what rows tell of them.

    topics       each that was made for the trial is in ZooKeeper's own log, where that was read,
                 and was first made with the same replicas
    settings     a topic's own are in the end what it was made with, by ZooKeeper, where no operator
                 changed them: by them losses are excused
    faults       what an operator asked for while faults were played is what one of them does
    wiped        a broker whose log directory was emptied takes up its first roles with empty logs
    delivery     batches of an idempotent producer bear a producer's epoch, and others' bear none:
                 who is idempotent is promised that a record lands once
    requests     a topic that was made while faults were played is one that somebody asked for
    partitions   a client writes to those that it was launched for, and is given of no others
    nodes        a client that asks brokers one by one was answered by those that are named for it,
                 and by no other: it would be asked for less than it did

Only what the trial says of itself is looked at: of an old run nobody knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.clients import chaos, sums
from checkers.facts.decisions import from_log
from checkers.facts.faults import FLOOD, Fault, faults, faults_of
from checkers.facts.trials import rows_of

if TYPE_CHECKING:
    from checkers.history.frames import History

_PRODUCER, _IDEMPOTENT = "producer", "idempotent"
_ENDS: Final = (F.min_by, F.max_by)
_CHANGES: Final = "ALTER_CONFIGS"
_MAKES: Final = "CREATE_TOPICS"
_NONE: Final = -1
_OF_TOPICS: Final = (_MAKES, "DELETE_TOPICS")
WIPE: Final = "wipe-disk"
_AGAIN_NS: Final = 2_000_000_000
"""By then an operator has tried once more what was refused, or not answered."""
Trial = tuple[str, int]


def unfounded(history: History) -> Iterator[tuple[Trial, str]]:
    """By trial, in words."""
    made, logged = _made(history), from_log(history)
    for (arm, trial, topic), facts in sorted(history.run.topics.items()):
        if not facts.assignment or (arm, trial) not in logged:
            continue
        of = made.get((arm, trial, topic))
        if of is None:
            yield (arm, trial), f"run.json has a topic {topic}, and ZooKeeper's log never made it"
        elif of != facts.assignment:
            says = "with other replicas than ZooKeeper's log made it with"
            yield (arm, trial), f"run.json has a topic {topic} {says}"
    named = {
        (key, one.process): set(one.nodes)
        for key, workloads in history.run.workloads.items()
        for one in workloads
        if one.nodes
    }
    strange: dict[tuple[Trial, str], set[int]] = {}
    elsewhere: dict[tuple[Trial, str], set[tuple[str, int]]] = {}
    meant = {
        (key, one.process): one.topics
        for key, workloads in history.run.workloads.items()
        for one in workloads
        if one.topics
    }
    for each in sums(history):
        topics = meant.get((each.key, each.process))
        if topics is not None and each.at is not None:
            those = topics.get(each.at[0], (_NONE,))
            if those and each.at[1] not in those:
                elsewhere.setdefault((each.key, each.process), set()).add(each.at)
        nodes = named.get((each.key, each.process))
        if nodes is not None and each.node is not None and each.node not in nodes:
            strange.setdefault((each.key, each.process), set()).add(each.node)
    for (key, process), nodes in sorted(strange.items()):
        says = f"{process}: it asked nodes {sorted(nodes)}, of which run.json does not know"
        yield key, says
    for (key, process), places in sorted(elsewhere.items()):
        topic, partition = min(places)
        says = f"it wrote to, or was given, {len(places)} partitions that were not for it, by"
        yield key, f"{process}: {says} run.json, the first {topic}-{partition}"


def _made(history: History) -> dict[tuple[str, int, str], dict[int, tuple[int, ...]]]:
    """By arm, trial and topic: the replicas that it was first made with, by partition."""
    first: dict[tuple[str, int, str], tuple[int, dict[int, tuple[int, ...]]]] = {}
    for row in history.rows("zk_write"):
        if row["what"] != "topic" or row["step"] != "created" or row["zxid"] is None:
            continue
        topic = (row["arm"], row["trial"], row["topic"])
        if topic not in first or row["zxid"] < first[topic][0]:
            first[topic] = (row["zxid"], {})
        if row["zxid"] == first[topic][0] and row["partition"] is not None:
            first[topic][1][row["partition"]] = tuple(row["replicas"] or ())
    return {topic: replicas for topic, (_, replicas) in first.items()}


def otherwise_set(history: History) -> Iterator[tuple[Trial, str]]:
    """By trial, in words: topics that were made otherwise than run.json says. All that a topic has
    of its own is described with what ZooKeeper holds of it, by each broker that is asked."""
    changed = {
        (row["arm"], row["trial"], row["about"])
        for row in history.rows("admin_request")
        if row["api"] == _CHANGES
    }
    held: dict[tuple[str, int, str], dict[str, str]] = {}
    for row in history.rows("described"):
        if row["api"] == "DescribeConfigs" and row["known"] and row["error"] is None:
            of = held.setdefault((row["arm"], row["trial"], row["name"]), {})
            if row["truth"] is not None:
                of[row["key"]] = row["truth"]
    for topic, facts in sorted(history.run.topics.items()):
        own = held.get(topic)
        if own is None or topic in changed:
            continue
        for key in sorted(
            key for key in own.keys() | facts.configs if own.get(key) != facts.configs.get(key)
        ):
            says = f"says {facts.configs.get(key)}" if key in facts.configs else "does not say so"
            yield topic[:2], f"topic {topic[2]} has {key}={own.get(key)}, and run.json {says}"


def missent(history: History) -> Iterator[tuple[Trial, str]]:
    """By trial, in words: producers whose batches are not of the sort that run.json says; by the
    first and the last record that each had acknowledged, where the final logs have them."""
    said = {
        (*key, one.process): one.delivery == _IDEMPOTENT
        for key, workloads in history.run.workloads.items()
        for one in workloads
        if one.role == _PRODUCER and one.delivery is not None
    }
    if not said or not (history.has("produce") and history.has("log_read")):
        return
    by, place = ["arm", "trial", "process"], ["topic", "partition", "offset", "value"]
    sent = history.frame("produce").where("type = 'ok' and offset >= 0 and topic is not null")
    record = F.struct(*place)
    ends = sent.groupBy(*by).agg(*(of(record, "t").alias(of.__name__) for of in _ENDS))
    two = F.explode(F.array(*(of.__name__ for of in _ENDS))).alias("r")
    records = ends.select(*by, two).select(*by, *(f"r.{name}" for name in place))
    read = history.frame("log_read").where("producer_epoch is not null")
    read = read.select("arm", "trial", *place, "producer_epoch")
    # The few first: Sail looks up in what stands first, where it knows of neither how many it has.
    found = F.broadcast(records).join(read, ["arm", "trial", *place])
    epochs = found.groupBy(*by).agg(F.min(F.col("producer_epoch") >= 0).alias("idempotent"))
    for row in epochs.orderBy(*by).toArrow().to_pylist():
        is_so = said.get((row["arm"], row["trial"], row["process"]))
        if is_so is not None and is_so != row["idempotent"]:
            says = "no idempotent producer" if is_so else "an idempotent producer"
            why = f"{row['process']}: its records are those of {says}, and run.json says otherwise"
            yield (row["arm"], row["trial"]), why


def _asks(fault: Fault, row: Mapping[str, Any]) -> bool:
    """Whether it was in place then, and asks for such things: a flood for a topic, and no more."""
    asks = not fault.name.startswith(FLOOD) or row["api"] in _OF_TOPICS
    return asks and fault.from_t <= row["invoke_t"] <= fault.to_t


def _asks_again(row: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Whether it is what a fault had asked for, which was not done: tried once more, also when that
    fault is over."""
    since = row["invoke_t"] - before["t"]
    return row["api"] == before["api"] and before["type"] != "ok" and 0 <= since <= _AGAIN_NS


def unplanned(history: History) -> Iterator[tuple[Trial, str]]:
    """By trial, in words: what was asked for by no fault that the history tells of."""
    for key, (from_t, to_t) in sorted(chaos(history).items()):
        planned: list[Mapping[str, Any]] = []
        stray = []
        asked = rows_of(history, "admin_request", key)
        for row in sorted(asked, key=lambda row: int(row["invoke_t"])):
            if row["wanted"] is not None or not from_t < row["invoke_t"] < to_t:
                continue
            of_fault = any(_asks(fault, row) for fault in faults_of(history, key))
            is_known = of_fault or any(_asks_again(row, before) for before in planned)
            (planned if is_known else stray).append(row)
        if stray:
            says = f"{len(stray)} requests of an operator while faults were played are of no fault"
            yield key, f"{says}, the first {stray[0]['api']} {stray[0]['about']}".rstrip()


def unasked_for(history: History) -> Iterator[tuple[Trial, str]]:
    """By trial, in words: topics that ZooKeeper's log made while faults were played, for which
    nobody tells of having asked. Brokers make their own topics (``__consumer_offsets``)."""
    asked = {
        (row["arm"], row["trial"], row["about"])
        for row in history.rows("admin_request")
        if row["api"] == _MAKES
    }
    spans = chaos(history)
    strange: dict[Trial, set[str]] = {}
    for row in history.rows("zk_write"):
        key = (row["arm"], row["trial"])
        if row["what"] != "topic" or row["step"] != "created" or key not in spans:
            continue
        from_t, to_t = spans[key]
        name = row["topic"] or ""
        during = from_t < row["t"] < to_t and not name.startswith("__")
        if during and (*key, name) not in asked:
            strange.setdefault(key, set()).add(name)
    for key, names in sorted(strange.items()):
        says = f"{len(names)} topics were made while faults were played, and nobody asked for them"
        yield key, f"{says}, the first {min(names)}"


def not_wiped(history: History) -> Iterator[tuple[Trial, str]]:
    """By trial, in words: brokers whose disks a fault says it wiped, and whose logs were there when
    they came back."""
    for fault in faults(history):
        wiped = _wiped(fault)
        first: dict[tuple[int, str, int], Mapping[str, Any]] = {}
        for row in rows_of(history, "leader_change", fault.trial) if wiped else ():
            if row["node"] in wiped and row["t"] > wiped[row["node"]]:
                first.setdefault((row["node"], row["topic"], row["partition"]), row)
        kept = {node for (node, *_), row in first.items() if (row["log_end_offset"] or 0) > 0}
        for node in sorted(kept):
            says = f"{fault.id} says that it wiped node {node}'s disk, which came back with logs"
            yield fault.trial, says


def _wiped(fault: Fault) -> dict[int, int]:
    """Whose disks it says that it wiped, and since when (ns)."""
    since = [row["t"] for row in fault.rows if row["took_hold"]]
    wiped = dict.fromkeys(fault.nodes, min(since)) if fault.name == WIPE and since else {}
    return wiped | (dict([fault.emptied]) if fault.emptied else {})
