"""Groups: does a consumer group go on where it was?

Guarantee: an offset that the coordinator acknowledged is kept, whoever coordinates next; whoever is
given a partition goes on from the newest kept offset; and together a group's members are given
every record (at least once).

Violations:
- ``group-offset-went-back``: a member that was given a partition began before an offset whose
  commit had been acknowledged before;
- ``committed-offset-lost``: asked at the end, the coordinator has an older offset than one that it
  acknowledged, or none;
- ``committed-never``: asked for an offset, the coordinator has a newer one than anybody ever asked
  it to keep;
- ``group-skipped``: of one partition, a record between two that members were given, which is in the
  final log and was given to none of them;
- ``committed-by-two``: while one member has a partition and commits for it, another commits for it
  as well, again and again (`_OFTEN`): both were given it, or a past generation is obeyed.

Lawful and alike: records that were given and not committed are given again; a commit of which
nobody knows the end may be kept or not; a member whose position was reset (`polls.RESET_ERRORS`)
begins where it was sent; who is thrown out may commit no more, and its commits fail. A client may
commit once what it had polled before a rebalance, in the generation after it: the coordinator does
not look at partitions, so once proves nothing. What a member was given from one assignment to the
next is judged by `polls`.

Unknown: a group whose members were never given a partition, or never committed anything; a kept
offset that nobody asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.facts.accounts import leaders_table
from checkers.judging.excuses import excuses
from checkers.judging.outcome import Outcome
from checkers.judging.promise import Promise
from checkers.judging.witness import Finding, Pick
from checkers.promises.polls import RESET_ERRORS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

BEGINNINGS: Final = "partitions given to a member, and begun"
COMMITS: Final = "acknowledged commits"
KEPT: Final = "kept offsets asked for"
_TP: Final = ["arm", "trial", "topic", "partition"]
_SUSPECTS: Final = 1_000
_OFTEN: Final = 3


def check(history: History) -> Outcome:
    outcome = Outcome()
    if not history.has("assignment"):
        return outcome
    commits = history.frame("commit").where("type = 'ok' and offset >= 0")
    for row in commits.groupBy("arm", "trial").count().toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], COMMITS, row["count"])
    for row in _beginnings(history, commits):
        _judge_beginning(history, outcome, row)
    for row in _kept(history, commits):
        _judge_kept(outcome, row)
    _asked_for(history, outcome, commits)
    for row in _skipped(history):
        outcome.add(_skip(row))
        outcome.counts["group-skipped"] += row["n"] - 1
    for row in _unassigned(history, commits):
        says = f"{row['process']} committed {row['n']} times for {row['topic']}-{row['partition']}"
        outcome.unknown(row["arm"], row["trial"], f"{says}, which it had not been given")
    for row in _by_two(history, commits):
        outcome.add(_two(row))
    for arm, trial in history.trials:
        if not outcome.evidence[arm, trial, BEGINNINGS]:
            outcome.unknown(arm, trial, "no member of a group was given a partition and read it")
        if not outcome.evidence[arm, trial, COMMITS]:
            outcome.unknown(arm, trial, "no commit of a group was acknowledged")
    return outcome


def _beginnings(history: History, commits: DataFrame) -> list[dict[str, Any]]:
    """Each assignment that led to a first record, with the newest offset kept before it."""
    given = history.frame("assignment").select(
        *_TP,
        "process",
        "group",
        "t",
        F.col("event").alias("what"),
        F.lit(-1).cast("long").alias("offset"),
    )
    reset = F.coalesce(F.col("error").isin(*RESET_ERRORS), F.lit(False))
    got = (F.col("type") == "ok") & (F.col("offset") >= 0)
    polls = (
        history.frame("fetch")
        .where(got | reset)
        .select(
            *_TP,
            "process",
            F.lit(None).cast("string").alias("group"),
            "t",
            F.when(got, "got").otherwise("reset").alias("what"),
            F.coalesce("offset", F.lit(-1)).alias("offset"),
        )
    )
    members = given.select("arm", "trial", "process").distinct()
    rows = given.unionByName(polls.join(F.broadcast(members), ["arm", "trial", "process"]))
    order = Window.partitionBy(*_TP, "process").orderBy("t", F.col("what") != "assigned", "offset")
    rows = rows.withColumn("_before", F.lag("what").over(order))
    rows = rows.withColumn("_given_t", F.lag("t").over(order))
    rows = rows.withColumn("group", F.coalesce("group", F.lag("group").over(order)))
    first = rows.where("what = 'got' and _before = 'assigned'")
    first = first.select(*_TP, "process", "group", "offset", "t", "_given_t").alias("f")
    kept = commits.select(*_TP, "group", F.col("offset").alias("kept"), F.col("t").alias("kept_t"))
    same = F.col("k.kept_t") < F.col("f._given_t")
    for name in (*_TP, "group"):
        same = same & (F.col(f"f.{name}") == F.col(f"k.{name}"))
    joined = first.join(kept.alias("k"), same, "left")
    found = joined.groupBy(*(F.col(f"f.{n}").alias(n) for n in (*_TP, "process", "group")),
                           F.col("f.offset").alias("offset"), F.col("f.t").alias("t"),
                           F.col("f._given_t").alias("given_t")).agg(
        F.max("kept").alias("kept"), F.max_by("kept_t", "kept").alias("kept_t")
    )  # fmt: skip
    return list(found.toArrow().to_pylist())


def _judge_beginning(history: History, outcome: Outcome, row: dict[str, Any]) -> None:
    arm, trial = row["arm"], row["trial"]
    outcome.saw(arm, trial, BEGINNINGS)
    if row["kept"] is None or row["offset"] >= row["kept"]:
        return
    excuse = excuses(history).of(arm, trial, row["topic"], row["partition"], row["t"])
    if excuse is not None:
        outcome.excuse(arm, trial, "group-offset-went-back", excuse, of=BEGINNINGS)
        return
    at = {"topic": row["topic"], "partition": row["partition"]}
    own = {**at, "process": row["process"]}
    outcome.add(
        Finding(
            "group-offset-went-back",
            f"{row['process']} of group {row['group']} was given {row['topic']}-{row['partition']} "
            f"and began at offset {row['offset']}, although {row['kept']} had been committed",
            arm,
            trial,
            (
                Pick("commit", {**at, "offset": row["kept"], "t": row["kept_t"]}, rows=1),
                Pick("assignment", {**own, "t": row["given_t"]}, rows=1),
                Pick("fetch", {**own, "offset": row["offset"], "t": row["t"]}, rows=1),
            ),
        )
    )


def _kept(history: History, commits: DataFrame) -> list[dict[str, Any]]:
    """Each answer about a kept offset, with the newest that had been acknowledged before."""
    if not history.has("committed"):
        return []
    asked = (
        history.frame("committed")
        .where("type = 'ok' and topic is not null")
        .select(*_TP, "group", "offset", "invoke_t", "t", "process")
    )
    done = commits.select(*_TP, "group", F.col("offset").alias("kept"), F.col("t").alias("kept_t"))
    same = F.col("k.kept_t") < F.col("a.invoke_t")
    for name in (*_TP, "group"):
        same = same & (F.col(f"a.{name}") == F.col(f"k.{name}"))
    joined = asked.alias("a").join(done.alias("k"), same, "left")
    names = (*_TP, "group", "offset", "t", "process")
    answers = joined.groupBy(*(F.col(f"a.{name}").alias(name) for name in names))
    found = answers.agg(F.max("kept").alias("kept"))
    commits_of = history.frame("commit").where("offset >= 0").groupBy(*_TP, "group")
    tried = commits_of.agg(F.max("offset").alias("tried"))  # whatever came of it, and whenever
    found = found.join(F.broadcast(tried), [*_TP, "group"], "left")
    return list(found.toArrow().to_pylist())


def _judge_kept(outcome: Outcome, row: dict[str, Any]) -> None:
    outcome.saw(row["arm"], row["trial"], KEPT)
    if row["offset"] > max(row["tried"] or 0, 0):
        outcome.add(_never_tried(row))
    if row["kept"] is None or row["offset"] >= row["kept"]:
        return
    at = {"topic": row["topic"], "partition": row["partition"], "group": row["group"]}
    outcome.add(
        Finding(
            "committed-offset-lost",
            f"group {row['group']} had committed offset {row['kept']} of "
            f"{row['topic']}-{row['partition']}; in the end its coordinator has {row['offset']}",
            row["arm"],
            row["trial"],
            (
                Pick("commit", {**at, "offset": row["kept"], "type": "ok"}, rows=1),
                Pick("committed", {**at, "t": row["t"]}, rows=1),
            ),
        )
    )


def _never_tried(row: dict[str, Any]) -> Finding:
    at = {"topic": row["topic"], "partition": row["partition"], "group": row["group"]}
    return Finding(
        "committed-never",
        f"the coordinator of group {row['group']} has offset {row['offset']} of "
        f"{row['topic']}-{row['partition']}; the highest that anybody asked it to keep is "
        f"{row['tried']}",
        row["arm"],
        row["trial"],
        (Pick("commit", at, last=True, rows=2), Pick("committed", {**at, "t": row["t"]}, rows=1)),
    )


def _asked_for(history: History, outcome: Outcome, commits: DataFrame) -> None:
    """Whether somebody asked for each partition's kept offset, after the last commit of it."""
    last = commits.groupBy(*_TP, "group").agg(F.max("t").alias("_last_t"))
    asked = history.frame("committed").where("type = 'ok' and topic is not null")
    asked = asked.groupBy(*_TP, "group").agg(F.max("invoke_t").alias("_asked_t"))
    vain = last.join(asked, [*_TP, "group"], "left")
    vain = vain.where("_asked_t is null or _asked_t < _last_t")
    for row in vain.orderBy(*_TP).limit(_SUSPECTS).toArrow().to_pylist():
        says = f"nobody was told which offset of {row['topic']}-{row['partition']} was kept"
        outcome.unknown(row["arm"], row["trial"], f"{says} for group {row['group']}")


def _skipped(history: History) -> list[dict[str, Any]]:
    """Records of the final log between the first and the last that a group was given, and that it
    was not given."""
    members = history.frame("assignment").select("arm", "trial", "process", "group").distinct()
    given = history.frame("fetch").where("type = 'ok' and offset >= 0")
    given = given.join(F.broadcast(members), ["arm", "trial", "process"])
    given = given.select(*_TP, "group", "offset").distinct()
    spans = given.groupBy(*_TP, "group").agg(
        F.min("offset").alias("_low"), F.max("offset").alias("_high")
    )
    leaders = leaders_table(history).select(*_TP, "leader_node")
    final = history.frame("log_read").join(F.broadcast(leaders), _TP).where("node = leader_node")
    inside = final.select(*_TP, "offset").join(F.broadcast(spans), _TP)
    inside = inside.where("offset > _low and offset < _high")
    missed = inside.join(given, [*_TP, "group", "offset"], "left_anti")
    found = missed.groupBy(*_TP, "group").agg(
        F.count("*").alias("n"), F.min("offset").alias("offset")
    )
    return list(found.limit(_SUSPECTS).toArrow().to_pylist())


def _unassigned(history: History, commits: DataFrame) -> list[dict[str, Any]]:
    """Commits of a member for what nobody had given it by then: the coordinator does not look at
    partitions, so that it is the client's own account that cannot be."""
    given = history.frame("assignment").where("event = 'assigned'")
    first = given.groupBy(*_TP, "process").agg(F.min("t").alias("_first_t"))
    rows = commits.join(F.broadcast(first), [*_TP, "process"], "left")
    odd = rows.where("_first_t is null or t < _first_t").groupBy(*_TP, "process")
    return list(odd.agg(F.count("*").alias("n")).limit(_SUSPECTS).toArrow().to_pylist())


def _by_two(history: History, commits: DataFrame) -> list[dict[str, Any]]:
    """Pairs of members that committed for one partition in turn, each in a term of its own.

    A member's term begins when it was given the partition. What the other one began to commit after
    that, and had acknowledged before the member committed again in the same term, it committed for
    what was not its own.
    """
    begun = history.frame("assignment").where("event = 'assigned'")
    begun = begun.select(*_TP, "process", "group", "t", F.lit(None).cast("long").alias("invoke_t"))
    done = commits.select(*_TP, "process", "group", "t", "invoke_t")
    order = Window.partitionBy(*_TP, "group", "process").orderBy(F.coalesce("invoke_t", "t"))
    last = F.last(F.when(F.col("invoke_t").isNull(), F.col("t")), ignorenulls=True)
    kept = begun.unionByName(done).withColumn("term_t", last.over(order))
    kept = kept.where("invoke_t is not null and term_t is not null")
    terms = kept.groupBy(*_TP, "group", "process", "term_t").agg(
        F.max("invoke_t").alias("last_invoke_t")
    )
    same = (F.col("o.process") != F.col("m.process")) & (F.col("o.invoke_t") > F.col("m.term_t"))
    same = same & (F.col("o.t") < F.col("m.last_invoke_t"))
    for name in (*_TP, "group"):
        same = same & (F.col(f"o.{name}") == F.col(f"m.{name}"))
    joined = kept.alias("o").join(F.broadcast(terms).alias("m"), same)
    found = joined.groupBy(
        *(F.col(f"m.{name}").alias(name) for name in (*_TP, "group", "process", "term_t")),
        F.col("o.process").alias("other"),
        F.col("o.term_t").alias("other_term_t"),
    ).agg(F.count("*").alias("n"), F.min("o.t").alias("t"))
    return list(found.where(F.col("n") >= _OFTEN).limit(_SUSPECTS).toArrow().to_pylist())


def _two(row: dict[str, Any]) -> Finding:
    at = {"topic": row["topic"], "partition": row["partition"]}
    own, other = {**at, "process": row["process"]}, {**at, "process": row["other"]}
    return Finding(
        "committed-by-two",
        f"{row['other']} committed {row['n']} times for {row['topic']}-{row['partition']} while "
        f"{row['process']} of group {row['group']} had it and committed as well",
        row["arm"],
        row["trial"],
        (
            Pick("assignment", {**own, "t": row["term_t"]}, rows=1),
            Pick("commit", {**other, "t": row["t"]}, rows=1),
            Pick("commit", {**own, "type": "ok"}, from_t=row["t"], rows=1),
        ),
    )


def _skip(row: dict[str, Any]) -> Finding:
    at = {"topic": row["topic"], "partition": row["partition"]}
    return Finding(
        "group-skipped",
        f"no member of group {row['group']} was given {row['n']} records of "
        f"{row['topic']}-{row['partition']} that lie between others, the first at offset "
        f"{row['offset']}",
        row["arm"],
        row["trial"],
        (
            Pick("fetch", {**at, "offset": row["offset"] - 1}, rows=2),
            Pick("commit", at, last=True, rows=2),
            Pick("log_read", {**at, "offset": row["offset"]}, rows=2),
        ),
    )


PROMISE: Final = Promise(
    name="groups",
    says="A consumer group goes on where it was, and its members are given every record.",
    source="Kafka's GroupCoordinator and GroupMetadataManager; Jepsen's Kafka workload (subscribe)",
    rules={
        "group-offset-went-back": "Who is given a partition goes on from the kept offset.",
        "committed-offset-lost": "An acknowledged offset is kept.",
        "committed-never": "The coordinator keeps only what it was asked to keep.",
        "group-skipped": "Together a group's members are given every record.",
        "committed-by-two": "A partition is one member's at a time.",
    },
    evidence={
        BEGINNINGS: "by assignment",
        COMMITS: "by the coordinator's answer",
        KEPT: "at the end, by its members",
    },
    unknown_when=(
        "no member was given a partition, or none committed",
        "nobody asked for an offset that was kept",
        "a member committed for a partition that it never had",
    ),
    blind=(
        "records given twice by turns of less than three commits",
        "a partition that two members were given at once, and read: only commits are fenced",
        "groups whose members use no subscription",
    ),
    check=check,
)
