"""Those who act on what was decided: brokers and their clients, for `checkers.promises.epochs`.

Whether a broker leads, follows, shows itself or answers as was committed. What a broker says of
itself is held against ZooKeeper (the metadata log): its word excuses nothing here. A forger may
have made it believe something else with a lie that Kafka cannot see; then it is the forger's doing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.answers import deletion_steps
from checkers.facts.committed import Committed, committed
from checkers.facts.decisions import from_copies, from_log, is_lost, lives
from checkers.facts.forgeries import taken_in
from checkers.facts.leadership import TP, Key, key_of, leadership
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

ROLES: Final = "roles taken"
CACHED: Final = "leaders taken into metadata"
IN_SYNC: Final = "in-sync sets that leaders counted on"
ACKS: Final = "records of which a client says who served it"
_UNSAID: Final = -1
_SERVICES: Final = {
    "produce": "acknowledged {n} records",
    "fetch": "delivered {n} records",
    "listed_offset": "told the end {n} times",
    "read_at": "served {n} reads",
    "epoch_end": "told {n} times where a leader epoch ends",
}
_BELIEVED: Final = ("read_at", "epoch_end")
"""Who asks says in which leader epoch he believes, and is served in no other (KIP-320)."""
Row = Mapping[str, Any]


def acting(history: History, outcome: Outcome) -> Iterator[Finding]:
    """All that was done otherwise than it was decided."""
    yield from _roles(history, outcome)
    yield from _roles_in_a_row(history, outcome)
    yield from _caches(history, outcome)
    yield from _in_sync_sets(history, outcome)
    yield from _served(history, outcome)


def _roles(history: History, outcome: Outcome) -> Iterator[Finding]:
    known = committed(history)
    lies = _lies(history, "LEADER_AND_ISR")
    for row in history.rows("leader_change"):
        of = known.get(key_of(row)) if row["topic"] is not None else None
        leads = row["node"] if row["role"] == "leader" else row["leader"]
        epoch = -1 if row["leader_epoch"] is None else row["leader_epoch"]
        leaders = of.leaders.get(epoch, set()) if of is not None else set()
        told_all = _has_all(history, key_of(row), of) and epoch >= 0
        if leads is None or leads < 0 or (not leaders and not told_all):
            continue
        outcome.saw(row["arm"], row["trial"], ROLES)
        follows_itself = row["role"] != "leader" and leads == row["node"]
        if leads in leaders and not follows_itself:
            continue
        if (*key_of(row), row["node"], row["leader_epoch"]) in lies:
            outcome.excuse(row["arm"], row["trial"], "led-by-another", "forged", of=ROLES)
            continue
        at = _at(row)
        says = "leads" if row["role"] == "leader" else f"follows node {leads} in"
        yield Finding(
            "led-by-another",
            f"node {row['node']} {says} {row['topic']}-{row['partition']} in leader epoch "
            f"{row['leader_epoch']}, {_in_which(leaders)}",
            row["arm"],
            row["trial"],
            (
                Pick("leadership", {**at, "leader_epoch": row["leader_epoch"]}, rows=1),
                Pick(
                    "leader_change",
                    {**at, "node": row["node"], "leader_epoch": row["leader_epoch"]},
                    from_t=row["t"],
                    rows=1,
                ),
            ),
        )


def _roles_in_a_row(history: History, outcome: Outcome) -> Iterator[Finding]:
    """What one process was of a partition: leader epochs only rise in a topic's life. Once its
    deletion was asked for, which life a role is of is not told."""
    gone = deletion_steps(history)
    lied = _lied_to(history)
    last: dict[tuple[Any, ...], Row] = {}
    rows = [r for r in history.rows("leader_change") if (r["leader_epoch"] or 0) >= 0]
    for row in sorted(rows, key=lambda r: (r["boot"] or 0, r["t"])):
        key = key_of(row)
        place = (*key, row["node"], row["boot"])
        before = last.get(place)
        if before is None or (before["leader_epoch"] or 0) <= (row["leader_epoch"] or 0):
            last[place] = row
            continue
        apart = row["t"] - before["t"] > (row["error_ns"] or 0) + (before["error_ns"] or 0)
        asked = gone.get(key[:3], ())
        dying = any(step["t"] - (step["error_ns"] or 0) <= row["t"] for step in asked)
        if dying or not apart:
            continue
        if (key, row["node"]) in lied:
            outcome.excuse(*key[:2], "role-went-back", "forged", of=ROLES)
            continue
        own = {**_at(row), "node": row["node"]}
        yield Finding(
            "role-went-back",
            f"node {row['node']} took up leader epoch {row['leader_epoch']} of {_name(key)} after "
            f"{before['leader_epoch']}",
            *key[:2],
            (
                Pick("leader_change", {**own, "t": before["t"]}, rows=1),
                Pick("leader_change", {**own, "t": row["t"]}, rows=1),
            ),
        )


def _in_which(leaders: set[int]) -> str:
    return f"in which {_or(leaders)} was committed" if leaders else "which was never committed"


def _caches(history: History, outcome: Outcome) -> Iterator[Finding]:
    """What brokers' metadata took in. A leader below 0 is none, or a deletion's."""
    if not history.has("metadata_update"):
        return
    taken = history.frame("metadata_update").where("leader >= 0 and leader_epoch >= 0")
    found = taken.groupBy(*TP, "node", "leader", "leader_epoch").agg(
        F.min("t").alias("t"), F.count("*").alias("n")
    )
    known, lies = committed(history), _lies(history, "UPDATE_METADATA")
    for row in found.toArrow().to_pylist():
        of = known.get(key_of(row))
        told_all = _has_all(history, key_of(row), of)
        if of is None and not told_all:
            continue  # nothing was seen of that partition at all
        leaders = of.leaders.get(row["leader_epoch"], set()) if of is not None else set()
        outcome.saw(row["arm"], row["trial"], CACHED, row["n"])
        if row["leader"] in leaders or (not leaders and not told_all):
            continue
        if (*key_of(row), row["node"], row["leader_epoch"]) in lies:
            excused = ("cached-otherwise", "forged")
            outcome.excuse(row["arm"], row["trial"], *excused, of=CACHED, n=row["n"])
            continue
        mine = {**_at(row), "node": row["node"], "leader_epoch": row["leader_epoch"]}
        yield Finding(
            "cached-otherwise",
            f"node {row['node']}'s metadata took in leader {row['leader']} of {row['topic']}-"
            f"{row['partition']} in leader epoch {row['leader_epoch']}, {_in_which(leaders)}",
            row["arm"],
            row["trial"],
            (
                Pick("leadership", {**_at(row), "leader_epoch": row["leader_epoch"]}, rows=1),
                Pick("metadata_update", {**mine, "leader": row["leader"]}, rows=1),
            ),
        )


def _in_sync_sets(history: History, outcome: Outcome) -> Iterator[Finding]:
    """What leaders say of their in-sync sets, against ZooKeeper's own log, or the metadata log."""
    held: dict[tuple[Key, int], set[tuple[int, tuple[int, ...]]]] = {}
    logged = from_log(history)
    for key, of in lives(history).items():
        if key[:2] in logged:
            for state in (state for life in of for state in life):
                sets = held.setdefault((key, state.partition_epoch), set())
                sets.add((state.leader_epoch, tuple(sorted(state.isr or ()))))
    for key, known in committed(history).items():
        if key[:2] in from_copies(history):
            for epoch, isrs in known.isrs.items():
                for isr, versions in isrs.items():
                    for version in versions:
                        if version is not None:
                            held.setdefault((key, version), set()).add((epoch, isr))
    there = logged | {key[:2] for key, _ in held}
    lied = _lied_to(history)
    for row in history.rows("isr_change"):
        key = key_of(row)
        if key[:2] not in there or None in (row["topic"], row["partition_epoch"], row["isr"]):
            continue
        outcome.saw(*key[:2], IN_SYNC)
        own = (row["leader_epoch"], tuple(sorted(row["isr"])))
        states = committed(history).get(key)
        led_by = {} if states is None else states.leaders
        leads = row["node"] in led_by.get(row["leader_epoch"], {row["node"]})
        if own in held.get((key, row["partition_epoch"]), ()) and leads:
            continue
        if (key, row["node"]) in lied:
            outcome.excuse(*key[:2], "in-sync-otherwise", "forged", of=IN_SYNC)
            continue
        if is_lost(history, key, row["partition_epoch"]):
            says = f"ZooKeeper's log of {_name(key)} lacks the in-sync set that node {row['node']}"
            outcome.unknown(*key[:2], f"{says} counts on")
            continue
        at = {**_at(row), "partition_epoch": row["partition_epoch"]}
        in_zookeeper = key[:2] in logged
        written = Pick("zk_write", {**at, "what": "state"}, rows=2)
        yield Finding(
            "in-sync-otherwise",
            f"node {row['node']} counts on in-sync set {row['isr']} of {_name(key)} with leader "
            f"epoch {row['leader_epoch']} and partition epoch {row['partition_epoch']}; "
            f"{'ZooKeeper' if in_zookeeper else 'the metadata log'} "
            f"{'never held that' if leads else 'has another leader there'}",
            *key[:2],
            (
                written if in_zookeeper else Pick("leadership", at, rows=2),
                Pick("isr_change", {**at, "node": row["node"]}, from_t=row["t"], rows=1),
            ),
        )


def _has_all(history: History, key: Key, of: Committed | None) -> bool:
    """Whether every leader epoch of the partition is known: copies of a metadata log have all of
    what they know."""
    known = key[:2] in from_copies(history) and of is not None
    return known or key[:2] in from_log(history)


def _served(history: History, outcome: Outcome) -> Iterator[Finding]:
    """By whom clients were served, under which leader epoch where they say so: who never led may
    not serve, and in a leader epoch only its leader. Most clients do not say whom they asked."""
    known = committed(history)
    lies = _lies(history, "UPDATE_METADATA") | _lies(history, "LEADER_AND_ISR")
    for row in _servers(history):
        key, said = key_of(row), row["leader_epoch"]
        of = known.get(key)
        if of is None:
            continue
        leaders = of.leaders.get(said)
        if said == _UNSAID and key[:2] in from_log(history):
            leaders = _leaders_by(history, key, row["t"])
        if leaders is None:
            continue
        outcome.saw(*key[:2], ACKS, row["n"])
        if row["node"] in leaders:
            continue
        # Whichever broker was lied to may have told the client, or served it.
        if any(lie[:4] == key and said in (lie[5], _UNSAID) for lie in lies):
            outcome.excuse(*key[:2], "served-by-another", "forged", of=ACKS, n=row["n"])
            continue
        mine = {**_at(row), "node": row["node"], "type": "ok"}
        epoch = f" in leader epoch {said}, in which" if said != _UNSAID else "; by then only"
        what = _SERVICES[row["kind"]].format(n=row["n"])
        yield Finding(
            "served-by-another",
            f"node {row['node']} {what} of {_name(key)}{epoch} {_or(leaders) or 'nobody'} was "
            "committed",
            *key[:2],
            (
                Pick("leadership", _at(row), to_t=row["t"], rows=1, last=True),
                Pick(row["kind"], mine, from_t=row["t"], rows=1),
            ),
        )


def _servers(history: History) -> list[Row]:
    """The first answer of each broker about each partition, by what the client said of epochs. A
    fetched record's epoch is its own, and says nothing of who served it; with a log's end comes its
    leader's own, and who reads there or asks where an epoch ends says in which one he believes (in
    versions of Fetch that followers do not serve, KIP-392)."""
    found: list[Row] = []
    for kind, which in (("produce", "acks != 0"), ("fetch", "offset >= 0")):
        if not history.has(kind):
            continue
        epoch = F.coalesce("leader_epoch", F.lit(_UNSAID)) if kind == "produce" else F.lit(_UNSAID)
        answers = history.frame(kind).where(f"type = 'ok' and node is not null and {which}")
        by = answers.groupBy(*TP, "node", epoch.alias("leader_epoch"))
        first = by.agg(F.min("t").alias("t"), F.count("*").alias("n"))
        found += [{**row, "kind": kind} for row in first.toArrow().to_pylist()]
    if history.has("listed_offset"):
        ends = "type = 'ok' and node is not null and asked_ms = -1 and leader_epoch >= 0"
        by = history.frame("listed_offset").where(ends).groupBy(*TP, "node", "leader_epoch")
        first = by.agg(F.min("t").alias("t"), F.count("*").alias("n"))
        found += [{**row, "kind": "listed_offset"} for row in first.toArrow().to_pylist()]
    for kind in _BELIEVED:
        if history.has(kind):
            rows = history.frame(kind).where("type = 'ok' and node is not null")
            rows = rows.where("topic is not null and believed_epoch >= 0")
            by = rows.groupBy(*TP, "node", F.col("believed_epoch").alias("leader_epoch"))
            first = by.agg(F.min("t").alias("t"), F.count("*").alias("n"))
            found += [{**row, "kind": kind} for row in first.toArrow().to_pylist()]
    return found


def _leaders_by(history: History, key: Key, t: int) -> set[int]:
    """Whoever may have been committed as leader of any epoch by that time (ns)."""
    of = leadership(history).get(key)
    if of is None or of.incarnations > 1:  # a name's earlier life has leaders of its own
        return set[int]().union(*committed(history)[key].leaders.values())
    dated = {e.leader for e in of.commits if e.earliest_t is None or e.earliest_t <= t}
    seen = {e.leader for e in of.commits}
    undated = set[int]().union(*committed(history)[key].leaders.values()) - seen
    return {n for n in dated | undated if n is not None}


def _lies(history: History, api: str) -> set[tuple[Any, ...]]:
    """(partition..., node, leader epoch) of what a forger made brokers believe."""
    return {
        (*key_of(row), row["node"], row["leader_epoch"])
        for row in taken_in(history)
        if row["api"] == api and row["topic"] is not None
    }


def _lied_to(history: History) -> set[tuple[Key, int]]:
    """Partitions, with the broker to which a forger lied about them."""
    return {(key_of(row), row["node"]) for row in taken_in(history) if row["topic"]}


def _name(key: Key) -> str:
    return f"{key[2]}-{key[3]}"


def _or(values: Iterable[int]) -> str:
    return " or ".join(str(value) for value in sorted(values))


def _at(row: Row) -> dict[str, Any]:
    return {"topic": row["topic"], "partition": row["partition"]}
