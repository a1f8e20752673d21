"""Descriptions: is an operator told what is so?

Operators look at answers that no producer or consumer asks for: which settings a topic has, who
the brokers are, how large a log is, which producers write to it, what is being moved. A broker that
tells them wrongly loses no record, and is decided about by what it told. After the final read each
running broker is asked for all of it, and for its metrics (`described`).

Violations:
- ``settings-otherwise``: a topic's own settings are described with another value than ZooKeeper
  holds, are missing, or are made up; or a broker describes one of its own otherwise than the file
  has it that it was started with (DescribeConfigs, ConfigHelper);
- ``cluster-otherwise``: another cluster id or controller, or a registered broker that is not named,
  not registered and named, or at another address than by the listener that was asked, that of
  clients or that of brokers (DescribeCluster, Metadata, KIP-103);
- ``topic-otherwise``: another topic id, other replicas, a replica of a live broker as offline, a
  topic of the run's as internal (Metadata, KIP-516);
- ``log-otherwise``: a replica that lies on the broker's disk is not described, has another size
  than its segments, or is told to lag behind itself or to be moving (DescribeLogDirs, KIP-113);
- ``producers-otherwise``: the leader tells another epoch or last sequence of a producer than its
  last batch in the log has, or does not know it (DescribeProducers, KIP-664);
- ``newest-otherwise``: the leader tells another record than one of the latest time in its log, or
  that one's offset with another time, or none (ListOffsets, KIP-734);
- ``moves-otherwise``: the controller lists other topics or partitions as being reassigned than
  there are, or others as their replicas, or as those to come or to go (ListPartitionReassignments,
  KIP-455): in the end, and while a move is held up on purpose;
- ``gauge-otherwise``: a metric that operators are woken by (UnderReplicatedPartitions,
  OfflinePartitionsCount, ActiveControllerCount, ...) has another value than follows from what
  ZooKeeper holds, and keeps it for seconds: in the end, and while followers lag on purpose;
- ``producer-id-aged``: a broker gives a new producer id another epoch than the first: its producer
  begins with a batch that its leader takes for one of a later life (InitProducerId);
- ``producer-id-twice``: a broker gives a new producer an id that is in a log already, or that
  another broker gives as well (InitProducerId, ZkProducerIdManager): the second one's records are
  taken for the first one's again;
- ``leader-denies-operator``: who leads partitions, by what is committed, says of them that it does
  not, or that there are none (DescribeProducers, ListOffsets), for `_HEARS` after the load has
  ended, and leads them all the while (ReplicaManager.getPartitionOrError);
- ``versions-disagree``: a broker answers the same question otherwise in one version of a request,
  or one form of it, than in the newest one that it serves, though both can say it; or not at all
  (Kafka's message schemas: an old client is told what a new one is); or of many things asked for at
  once otherwise than of each alone, or because another of them is not there; or what it refuses it
  refuses in one version with another error, or with none (getErrorResponse of Kafka's requests);
- ``operation-otherwise``: what an operator asked the controller for was done otherwise, or more
  than that, or was only to be validated (``validate_only``) and was done; or it is refused, though
  sound (ConfigAdminManager, ZkAdminManager: a list grows from what holds, be that its default); or
  the controller places a topic's replicas on fewer brokers than were asked for, or unevenly, or
  says that it made another topic than it did (AdminUtils, KIP-525); or another topic goes than that
  of an id (KIP-516); or a client that joins, is given something, keeps a position, leaves, writes
  or deletes is answered otherwise than it asked, in any version of these that is served;
- ``brokers-disagree``: where nobody else knows, two brokers describe the cluster or a topic
  differently.

Lawful, and similar: what changed while it was asked about has no truth. Without ZooKeeper each
broker may name another controller: none but the quorum's voters has the office. A leader may
remember producers of whose records none is left, and the time of a record that was deleted; it
finds none where retention took all, and by its time alone one that a client has dated (Kafka 3.6
and 3.7 tell the end of its batch). Old versions of a request say LEADER_NOT_AVAILABLE for the
OFFSET_NOT_AVAILABLE of newer ones, which they do not know (KIP-207); and who asks for positions by
version 1, which has no error above all, some releases of Kafka may tell nothing where they refuse
(KafkaApis.fetchOffsetsForGroup): of which arms, run.json says. Nothing is appended to these
topics any more, so that sequences stand still; a size that retention changed meanwhile has no
truth.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.accounts import final_leaders, leaders_table
from checkers.facts.leadership import SHOWN, TP
from checkers.judging.outcome import Outcome
from checkers.judging.promise import Promise
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

Row = Mapping[str, Any]
TOLD: Final = "values told to an operator"
_LOGS: Final = "DescribeLogDirs"
_PRODUCERS: Final = "DescribeProducers"
_GAUGES: Final = "MBeans"
_SETTINGS: Final = "DescribeConfigs of itself"
_RECORDS: Final = "ListOffsets"
_GROUPS: Final = "ListGroups"
"""Judged with the groups (`checkers.promises.groups.listed_groups`)."""
_RULES: Final = {
    "Metadata": "topic-otherwise",  # of the cluster: cluster-otherwise
    "DescribeCluster": "cluster-otherwise",
    "DescribeConfigs": "settings-otherwise",
    "ListPartitionReassignments": "moves-otherwise",
    _LOGS: "log-otherwise",
    _PRODUCERS: "producers-otherwise",
    _GAUGES: "gauge-otherwise",
    "InitProducerId": "producer-id-aged",
    _SETTINGS: "settings-otherwise",
}
_NEWEST: Final = "DescribeCluster"
_MOVES: Final = "ListPartitionReassignments"
_OLDER: Final = ("Metadata", _LOGS, _MOVES, _GROUPS)
"""Who serves DescribeCluster (KIP-700) serves these as well, and each has something to tell."""
_IDS: Final = "InitProducerId"
_NEW_ID: Final = "new producer id"
_OWN: Final = (_LOGS, _PRODUCERS, _RECORDS, _GAUGES, _GROUPS, _IDS, _MOVES, _SETTINGS)
"""What each broker says of itself, or as the controller that it is."""
_ON_DISK: Final = (_LOGS, _SETTINGS)
"""What is held against a broker's own files, with ZooKeeper or without."""
_FORMS: Final = " by version"
"""Behind the name of an API that is asked in all versions: `harness.cluster.versions`."""
_REFUSED: Final = "refused: "
"""Before what is asked so and is to be refused: `harness.cluster.refusals`."""
_OLDEST_FETCH: Final = (f"OffsetFetch{_FORMS}", "version 1")
UNTOLD: Final = "old_clients_untold"
"""In run.json, of an arm: who asks so may be told nothing of a group of another coordinator's."""
_ASKED_FOR: Final = " asked for"
"""The same of what an operator asked for: `harness.cluster.operations`."""
DENIES: Final = "leader-denies-operator"
_DENIALS: Final = ("NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_OR_PARTITION")
_CONTROLLER: Final = "controller"
_FOUND: Final = re.compile(r"offset (-?\d+), time (-?\d+)")


def check(history: History) -> Outcome:
    outcome = Outcome()
    rows: Sequence[Row] = history.rows("described")
    for row in rows:
        if row["error"] in _DENIALS and row["known"]:
            outcome.add(_denial(row))
        elif row["error"] is not None:
            says = f"{row['api']} got no answer of node {row['node']}: {row['error']}"
            outcome.unknown(row["arm"], row["trial"], says)
    answered: list[Row] = [row for row in rows if row["error"] is None]
    for row in answered:
        outcome.saw(row["arm"], row["trial"], TOLD)
    for arm, trial, says in _silent(history, rows):
        outcome.unknown(arm, trial, says)
    known = []
    for row in (row for row in answered if row["known"]):
        if _may_be_untold(history, row):
            arm, trial = row["arm"], row["trial"]
            outcome.excuse(arm, trial, "versions-disagree", "refusal-untold", of=TOLD)
        else:
            known.append(row)
    for arm, trial, says in _of_two_minds(known):
        outcome.unknown(arm, trial, says)
    truths = [*known, *_on_disk(history, answered)]
    for row in truths:
        if row["told"] != row["truth"]:
            outcome.add(_finding(row))
    newest = [row for row in answered if row["api"] == _RECORDS]
    for finding in (
        *_disagreements(answered),
        *_ids_given_twice(history, answered),
        *(_otherwise(history, newest) if newest else ()),
    ):
        outcome.add(finding)
    return outcome


def _may_be_untold(history: History, row: Row) -> bool:
    own = (row["api"], row["key"]) == _OLDEST_FETCH and str(row["name"]).startswith(_REFUSED)
    return own and row["told"] != row["truth"] and history.run.may(row["arm"], UNTOLD)


def _silent(history: History, rows: Sequence[Row]) -> Iterator[tuple[str, int, str]]:
    """Nodes whose logs were read and of which there is no word, nor that they gave none; and those
    that say of the cluster or a topic less than another one, of which each row is written."""
    read = {
        (row["arm"], row["trial"], row["node"])
        for row in history.rows("log_end")
        if row["error"] is None
    }
    by_version = {_whose(row)[:3] for row in rows if row["api"].endswith(_FORMS)}
    for arm, trial, node in sorted(read - by_version):
        if any(key[:2] == (arm, trial) for key in by_version):
            yield arm, trial, f"nobody tells what node {node} says in which version of a request"
    rows = [row for row in rows if not row["api"].endswith((_FORMS, _ASKED_FOR))]
    told = {_whose(row)[:3] for row in rows if row["api"] != _GAUGES}
    for arm, trial, node in sorted(read - told):
        yield arm, trial, f"nobody tells what node {node} describes"
    served: dict[tuple[str, int], set[str]] = defaultdict(set)
    for row in rows:
        served[row["arm"], row["trial"]].add(row["api"])
    by_zookeeper = {_whose(row)[:2] for row in rows if row["known"] and row["api"] not in _ON_DISK}
    for (arm, trial), apis in sorted(served.items()):
        known = history.run.arms.get(arm, {}).get("leaders") != SHOWN
        for api in _OLDER if known and _NEWEST in apis else ():
            # Which moves are under way a broker is asked where somebody else knows it: ZooKeeper.
            if api == _MOVES and (arm, trial) not in by_zookeeper:
                continue
            if api not in apis:
                yield arm, trial, f"nobody tells what any node says by {api}"
    whole: dict[tuple[Any, ...], dict[Any, set[Any]]] = defaultdict(lambda: defaultdict(set))
    for row in rows:
        arm, trial, node, api = _whose(row)
        if row["error"] is None and not _is_own(api):
            whole[arm, trial, api][node].add((row["name"], row["key"]))
    for (arm, trial, api), by_node in whole.items():
        every = set().union(*by_node.values())
        for node, said in sorted(by_node.items()):
            for name, key in sorted(every - said)[:1]:
                yield arm, trial, f"nobody tells what node {node} says by {api} of {name} {key}"


def _of_two_minds(known: Sequence[Row]) -> Iterator[tuple[str, int, str]]:
    """What does not change while it is asked about is one, whichever broker is asked."""
    truths: dict[tuple[Any, ...], set[Any]] = defaultdict(set)
    for row in known:
        if not _is_own(row["api"]):
            key = tuple(row[name] for name in ("arm", "trial", "api", "name", "key"))
            truths[key].add(row["truth"])
    for (arm, trial, api, name, key), each in truths.items():
        if len(each) > 1:
            yield arm, trial, f"{api}, {key} of {name}: {len(each)} values are told to be the truth"


def _on_disk(history: History, answered: Sequence[Row]) -> Iterator[Row]:
    """What leaders' own files say of producers, as rows with that truth."""
    told = {(*_whose(row), row["name"], row["key"]): row["told"] for row in answered}
    asked = {_whose(row) for row in answered}
    led = {_log(row) for row in history.rows("log_end") if row["is_leader"]}
    for folder in history.rows("log_folder"):
        whose = (folder["arm"], folder["trial"], folder["node"], _PRODUCERS)
        if folder["error"] is not None or whose not in asked or _log(folder) not in led:
            continue
        name = f"{folder['topic']}-{folder['partition']}"
        for one in folder["producers"] or ():
            key = f"producer {one['producer_id']}"
            truth = f"epoch {one['producer_epoch']}, sequence {one['last_sequence']}"
            at = {"api": _PRODUCERS, "name": name, "key": key}
            yield {**folder, **at, "told": told.get((*whose, name, key)), "truth": truth}


def _is_own(api: str) -> bool:
    """Whether a broker tells it of itself: another may tell otherwise."""
    return api in _OWN or api.endswith((_FORMS, _ASKED_FOR))


def _whose(row: Row) -> tuple[Any, ...]:
    return (row["arm"], row["trial"], row["node"], row["api"])


def _log(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("arm", "trial", "node", "topic", "partition"))


def _disagreements(answered: Sequence[Row]) -> Iterator[Finding]:
    values: dict[tuple[Any, ...], dict[str, Row]] = defaultdict(dict)
    for row in answered:
        if not row["known"] and not _is_own(row["api"]) and row["key"] != _CONTROLLER:
            key = tuple(row[name] for name in ("arm", "trial", "api", "name", "key"))
            values[key].setdefault(str(row["told"]), row)
    for told in values.values():
        if len(told) > 1:
            one, other, *_ = sorted(told.values(), key=lambda row: int(row["node"]))
            says = f"{_what(other)}: {other['told']}; node {one['node']} says {one['told']}"
            yield _made("brokers-disagree", other, says)


def _ids_given_twice(history: History, answered: Sequence[Row]) -> Iterator[Finding]:
    given = [row for row in answered if row["api"] == _IDS and row["key"] == _NEW_ID]
    if not given:
        return
    taken: dict[tuple[str, int, str], str] = {}
    for folder in history.rows("log_folder"):
        for one in folder["producers"] or ():
            key = (folder["arm"], folder["trial"], str(one["producer_id"]))
            taken[key] = f"it is in the log of {folder['topic']}-{folder['partition']}"
    for row in sorted(given, key=lambda row: int(row["node"])):
        key = (row["arm"], row["trial"], str(row["told"]))
        if key in taken:
            yield _made("producer-id-twice", row, f"{_what(row)}: {row['told']}; {taken[key]}")
        taken[key] = f"node {row['node']} gives it, too"


def _otherwise(history: History, told: Sequence[Row]) -> Iterator[Finding]:
    """Of each log with records, who was told another than one of the latest time."""
    for row, truth in _newest(history, told):
        found = _FOUND.fullmatch(row["told"] or "")
        offset, time_ms = map(int, found.groups()) if found else (-1, -1)
        topic = history.run.topic(row["arm"], row["trial"], truth["topic"])
        if offset < 0:
            wrong = not topic.expires
        elif offset < truth["log_start"]:
            wrong = False
        else:
            of_it = truth["first"] <= offset <= truth["last"] or not topic.log_append_time
            wrong = time_ms != truth["newest_ms"] or not of_it
        if wrong:
            says = f"offsets {truth['first']} to {truth['last']}, time {truth['newest_ms']}"
            yield _made("newest-otherwise", row, f"{_what(row)}: {row['told']}; it is {says}")


def _newest(history: History, told: Sequence[Row]) -> Iterator[tuple[Row, Row]]:
    """Each row with the newest records of that log, as read in the end: ``first`` and ``last``
    offset of those of the latest time, ``newest_ms``; none of a log without records, or that is not
    committed whole: a client is told of no other."""
    leaders = F.broadcast(leaders_table(history).select(*TP, "leader_node"))
    log = history.frame("log_read").join(leaders, TP)
    log = log.where("node = leader_node and append_time_ms >= 0")
    newest = log.groupBy(*TP).agg(
        F.min(F.struct(-F.col("append_time_ms"), "offset")).getField("offset").alias("first"),
        F.max(F.struct("append_time_ms", "offset")).alias("newest"),
    )
    newest = newest.selectExpr(
        *TP, "first", "newest.offset last", "newest.append_time_ms newest_ms"
    )
    begins = {
        place: end["log_start_offset"]
        for place, end in final_leaders(history).items()
        if end["high_watermark"] in (None, end["log_end_offset"])
    }
    known: dict[tuple[Any, ...], Row] = {}
    for one in newest.toArrow().to_pylist():
        arm, trial, topic, partition = place = tuple(one[name] for name in TP)
        if place in begins:
            log_start = begins[place]
            known[arm, trial, f"{topic}-{partition}"] = {**one, "log_start": log_start}
    for row in told:
        truth = known.get((row["arm"], row["trial"], row["name"]))
        if truth is not None:
            yield row, truth


def _finding(row: Row) -> Finding:
    if row["api"].endswith(_FORMS):
        api = row["api"].removesuffix(_FORMS)
        says = f"node {row['node']} was asked for {row['name']} by {api}, {row['key']}, and says of"
        return _made("versions-disagree", row, f"{says} it: {row['told']}")
    if row["api"].endswith(_ASKED_FOR):
        api = row["api"].removesuffix(_ASKED_FOR)
        says = f"node {row['node']} was asked by {api} for {row['key']}, of {row['name']}, and then"
        words = f"{says} there were {row['told']}; there were to be {row['truth']}"
        return _made("operation-otherwise", row, words)
    of_cluster = row["api"] == "Metadata" and not row["name"]
    rule = "cluster-otherwise" if of_cluster else _RULES[row["api"]]
    told = "nothing" if row["told"] is None else row["told"]
    truth = "there is none" if row["truth"] is None else f"it is {row['truth']}"
    return _made(rule, row, f"{_what(row)}: {told}; {truth}")


def _denial(row: Row) -> Finding:
    own = {"node": row["node"], "api": row["api"], "error": row["error"]}
    says = f"node {row['node']} was asked by {row['api']} for what it led, and said {row['error']}"
    return Finding(DENIES, says, row["arm"], row["trial"], (Pick("described", own, rows=1),))


def _what(row: Row) -> str:
    of = f" of {row['name']}" if row["name"] else ""
    return f"node {row['node']} says by {row['api']} as {row['key']}{of}"


def _made(rule: str, row: Row, says: str) -> Finding:
    own = {"node": row["node"], "api": row["api"], "name": row["name"], "key": row["key"]}
    return Finding(rule, says, row["arm"], row["trial"], (Pick("described", own, rows=3),))


PROMISE: Final = Promise(
    name="descriptions",
    says="An operator is told what is so.",
    source="Kafka's ConfigHelper, KIP-113 (DescribeLogDirs), KIP-455, KIP-516, KIP-664 "
    "(DescribeProducers), KIP-700 (DescribeCluster), KIP-734",
    rules={
        "settings-otherwise": "Settings of a topic, and of a broker, are described as they are.",
        "cluster-otherwise": "The cluster, its controller and its brokers are told as they are.",
        "topic-otherwise": "A topic has the id and the replicas that are told.",
        "log-otherwise": "A log has the size on disk that is told, and lags not behind itself.",
        "producers-otherwise": "A leader knows each producer's last batch.",
        "newest-otherwise": "A leader finds the record of the latest time.",
        "moves-otherwise": "What is being moved is listed, and where to.",
        "gauge-otherwise": "Metrics count partitions as they are, and who is missing there.",
        "producer-id-aged": "A new producer id is of the first epoch.",
        "producer-id-twice": "A producer id is given once.",
        DENIES: "Who leads a partition does not tell an operator that it does not.",
        "versions-disagree": "Whichever version a client speaks, whatever it asks for beside, it "
        "is told the same.",
        "operation-otherwise": "What is asked for is done, in whichever version, and nothing else.",
        "brokers-disagree": "All brokers describe the cluster and its topics in the same way.",
    },
    evidence={TOLD: "of nodes that ran at the final read"},
    unknown_when=(
        "a node serves such a request, and does not answer it, or with another error",
        "of one thing, two values are said to be the truth",
        "a node's logs were read, and what it describes is not told whole; or nobody tells a thing "
        "by an API that is served",
    ),
    blind=(
        "what is said while the load lasts, but gauges of a leader whose followers lag on purpose, "
        "and moves that are held up on purpose",
        "refusals to who asks for positions by OffsetFetch 1, of releases with KAFKA-19246",
        "metrics of systems that are neither bundled nor described with theirs; those that count "
        "no partitions",
        "settings of brokers that were given them while they run, and those of which their file "
        "says nothing; defaults; access control lists",
        "APIs that a node does not serve",
        "what one version alone can say; what is told otherwise than it is, in all versions and "
        "forms alike, and by all brokers, unless another rule has it",
        "several things that are changed at once (members that leave together, positions of "
        "several partitions, settings of several topics)",
        "producers' timestamps, names and room of log directories, and the error of one that "
        "failed beside others",
        "without ZooKeeper: settings, topics and brokers on which all brokers agree",
    ),
    at_rest=frozenset({"log-otherwise", "producers-otherwise", "newest-otherwise"}),
    check=check,
)
