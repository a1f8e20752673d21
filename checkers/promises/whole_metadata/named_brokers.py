"""The live brokers that answers name, for `checkers.promises.whole_metadata`.

A client dials whom it is told of. An answer names the brokers that its broker believes to live, as
the controller last told it (MetadataCache.getAliveBrokerNodes). So

- ``stranger-named``: at no time one that never was started or registered;
- ``live-broker-unnamed``: once all is calm (`checkers.facts.calm`), each that lives;
- ``live-broker-offline``: once all is calm, none that lives among a partition's offline replicas
  (that of a failed disk would be; a broker of one disk does not live on without it);
- ``named-elsewhere``: at no time at another address than the one at which that broker answers
  clients who ask by the same listener: that of its own reader. Neither where all are listed nor
  where one is named as a group's coordinator (FindCoordinator). Listeners are told apart by this:
  who is sent to another one talks past what was put in front of his (a proxy, a quota, a plane).
  Black boxes name themselves as they like.

That one who is gone is still named is `departures`'. What a forged UpdateMetadata may have told is
the forger's, and counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.calm import Debts, brokers
from checkers.facts.forgeries import taken_in
from checkers.facts.leadership import black_boxes
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

LISTS: Final = "answers that name live brokers"
ADDRESSES: Final = "addresses of brokers"
Row = Mapping[str, Any]
Trial = tuple[str, int]


def named_brokers(history: History, outcome: Outcome) -> Iterator[Finding]:
    sets = _sets(history)
    ends: dict[Trial, int] = {}
    for row in sets:
        trial = (row["arm"], row["trial"])
        ends[trial] = max(ends.get(trial, 0), row["end_t"])
    debts, known = Debts(history, ends), brokers(history)
    liars = lied(history)
    listing = {(row["arm"], row["trial"]) for row in sets if row["brokers"] is not None}
    for row in sets:
        trial = (row["arm"], row["trial"])
        broker = (*trial, row["node"])
        if trial not in listing:
            continue
        if row["brokers"] is None:
            outcome.unknown(*trial, f"node {row['node']} never names live brokers, as others do")
            continue
        outcome.saw(*trial, LISTS, row["n"])
        odd = _odd(debts, broker, row, known.get(trial, set()))
        if odd is None:
            continue
        rule, says = odd
        if broker in liars or debts.deaf(broker, row["last_invoke_t"]):
            outcome.excuse(*trial, rule, "forged", of=LISTS, n=row["n"])
            continue
        answer = {"node": row["node"], "t": row["last_t"]}
        yield Finding(
            rule,
            f"node {row['node']} named brokers {list(row['brokers'])}; {says}",
            *trial,
            (
                Pick("node_event", {"event": "registered"}, last=True),
                Pick("fault", {"phase": "healed"}, rows=1, last=True),
                Pick("metadata", answer, rows=1),
            ),
        )


def lied(history: History) -> set[tuple[str, int, int]]:
    """Whom a forger made believe something of its metadata."""
    return {
        (row["arm"], row["trial"], row["node"])
        for row in taken_in(history)
        if row["api"] == "UPDATE_METADATA"
    }


def _odd(
    debts: Debts, broker: tuple[str, int, int], row: Row, known: set[int]
) -> tuple[str, str] | None:
    named = set(row["brokers"])
    strangers = sorted(named - known)
    if strangers and known:
        return "stranger-named", f"{strangers[0]} never was"
    for other in sorted(known - named):
        standing = debts.standing((*broker[:2], other))
        owed_t = debts.owed_from(broker, standing.since_t) if standing.up else None
        if owed_t is not None and row["last_invoke_t"] > owed_t:
            return "live-broker-unnamed", f"{other} lives, long after all was healed"
    return None


def named_offline(history: History, outcome: Outcome) -> Iterator[Finding]:
    """Whom answers called offline, and when last; of brokers that live."""
    from pyspark.sql import functions as F

    rows = history.frame("metadata").where("type = 'ok' and node is not null")
    by = ("arm", "trial", "node")
    ends = rows.groupBy("arm", "trial").agg(F.max("t").alias("t")).toArrow().to_pylist()
    called = rows.where("size(offline) > 0").select(
        *by, "topic", "partition", "invoke_t", "t", F.explode("offline").alias("other")
    )
    last = called.groupBy(*by, "other").agg(
        F.max_by(F.struct("invoke_t", "t", "topic", "partition"), "t").alias("last"),
    )
    found = last.orderBy(*by, "other").toArrow().to_pylist()
    debts = Debts(history, {(row["arm"], row["trial"]): row["t"] for row in ends})
    liars = lied(history)
    for row in found:
        trial, one = (row["arm"], row["trial"]), row["last"]
        broker, standing = (*trial, row["node"]), debts.standing((*trial, row["other"]))
        owed_t = debts.owed_from(broker, standing.since_t) if standing.up else None
        if owed_t is None or one["invoke_t"] <= owed_t:
            continue
        if broker in liars or debts.deaf(broker, one["invoke_t"]):
            outcome.excuse(*trial, "live-broker-offline", "forged", of=LISTS)
            continue
        at = {"topic": one["topic"], "partition": one["partition"]}
        yield Finding(
            "live-broker-offline",
            f"node {row['node']} called node {row['other']}'s replica of {one['topic']}-"
            f"{one['partition']} offline; {row['other']} lives, long after all was healed",
            *trial,
            (
                Pick("fault", {"phase": "healed"}, rows=1, last=True),
                Pick("metadata", {**at, "node": row["node"], "t": one["t"]}, rows=1),
            ),
        )


def _sets(history: History) -> list[dict[str, Any]]:
    """By broker and set of brokers that it named, the last such answer; null where it never did."""
    from pyspark.sql import functions as F

    rows = history.frame("metadata").where("type = 'ok' and node is not null")
    named = F.array_sort("brokers").alias("brokers")
    found = rows.groupBy("arm", "trial", "node", named).agg(
        F.max("invoke_t").alias("last_invoke_t"),
        F.max("t").alias("last_t"),
        F.count("*").alias("n"),
    )
    sets: list[dict[str, Any]] = found.toArrow().to_pylist()
    end_t: dict[Trial, int] = {}
    telling: set[tuple[str, int, int]] = set()
    for row in sets:
        trial = (row["arm"], row["trial"])
        end_t[trial] = max(end_t.get(trial, 0), row["last_t"])
        if row["brokers"] is not None:
            telling.add((*trial, row["node"]))
    # Only one row of an answer has them.
    return [
        {**row, "end_t": end_t[row["arm"], row["trial"]]}
        for row in sorted(sets, key=lambda r: (r["arm"], r["trial"], r["node"], r["last_t"]))
        if row["brokers"] is not None or (row["arm"], row["trial"], row["node"]) not in telling
    ]


# -- where they are --------------------------------------------------------------------------------


def named_addresses(history: History, outcome: Outcome) -> Iterator[Finding]:
    """Each address that a broker named, held against where that one answers."""
    if not history.has("metadata"):
        return
    strange = set(black_boxes(history))
    at: dict[tuple[str, int, str], set[str]] = {}
    for row in _addresses(history, "metadata", "asked_at"):
        at.setdefault((row["arm"], row["trial"], str(row["node"])), set()).add(row["address"])
    liars = lied(history)
    for row in _named(history):
        arm, trial, node = row["arm"], row["trial"], row["node"]
        if arm in strange:
            outcome.unjudged(arm, "the addresses of brokers")
            continue
        named, _, address = row["address"].partition("@")
        true = at.get((arm, trial, named))
        if true is None:
            continue  # nobody asked that one
        outcome.saw(arm, trial, ADDRESSES, row["n"])
        if address in true:
            continue
        if (arm, trial, node) in liars:
            outcome.excuse(arm, trial, "named-elsewhere", "forged", of=ADDRESSES, n=row["n"])
            continue
        yield Finding(
            "named-elsewhere",
            f"node {node} sent clients to {address} for node {named}, {row['n']} times; that one "
            f"answers clients at {', '.join(sorted(true))}",
            arm,
            trial,
            (
                Pick(row["kind"], {"node": node, "t": row["first_t"]}, rows=2),
                Pick("metadata", {"node": int(named), "type": "ok"}, rows=1),
            ),
        )


def _named(history: History) -> Iterator[dict[str, Any]]:
    for kind, which in {"metadata": "explode(endpoints)", "coordinator": "endpoint"}.items():
        for row in _addresses(history, kind, which) if history.has(kind) else ():
            yield {**row, "kind": kind}


def _addresses(history: History, kind: str, which: str) -> list[dict[str, Any]]:
    """By broker and address, when it was first in an answer, and how often."""
    from pyspark.sql import functions as F

    rows = history.frame(kind).where("type = 'ok' and node is not null")
    rows = rows.select("arm", "trial", "node", "t", F.expr(which).alias("address"))
    found = rows.where("address is not null").groupBy("arm", "trial", "node", "address")
    sums = found.agg(F.min("t").alias("first_t"), F.count("*").alias("n"))
    told: list[dict[str, Any]] = sums.toArrow().to_pylist()
    return sorted(told, key=lambda r: (r["arm"], r["trial"], r["first_t"], r["node"], r["address"]))
