"""Groups: does a consumer group go on where it was?

Guarantee: an offset that the coordinator acknowledged is kept, whoever coordinates next; whoever is
given a partition goes on from the newest kept offset; and together a group's members are given
every record (at least once).

Violations:
- ``group-offset-went-back``: a member that was given a partition began before an offset whose
  commit had been acknowledged before;
- ``committed-offset-lost``: asked for an offset, the coordinator has an older one than one that it
  had acknowledged, or none, and nobody can have committed that since;
- ``committed-never``: asked for an offset, by a member or by whoever asks every broker, one has an
  offset that nobody had asked it to keep by then;
- ``shown-offset-lost``: an offset that somebody was told of is not there when a member asks later
  (`shown_offsets`);
- ``group-skipped``: of one partition, a record between two that members were given, or before them
  all where each member begins at the start unless an offset is kept (run.json), which is in the
  final log and was given to none of them;
- ``stranger-committed``: somebody who never was a member, or not of the present generation, had a
  commit acknowledged (role group-stranger: it is to be refused whatever it says);
- ``coordinator-never-led``: a broker names one who had not led the group's partition by then;
- ``coordinator-superseded``: once all is calm a broker names another as the group's coordinator
  than who leads the group's partition (`coordinators`);
- ``kept-offset-lost``, ``deleted-group-back``, ``expired-offset-kept``: of groups without members
  (`kept_groups`);
- ``joined-without-id``, ``visitor-remembered``: of groups that somebody asks to join who never
  comes back (`visited_groups`);
- ``group-never-formed``: members poll, and none is ever given anything
  (`never_given`);
- ``thrown-out``: once all is calm a member is told that it is none any more, though it polls
  (`thrown_out`);
- ``committed-by-two``: while one member has a partition and commits for it, another commits for it
  as well, again and again (`_OFTEN`): both were given it, or a past generation is obeyed.

Lawful and alike: records that were given and not committed are given again; a commit of which
nobody knows the end may be kept or not; a member whose position was reset (`polls.RESET_ERRORS`)
begins where it was sent; who is thrown out may commit no more, and its commits fail. A client may
commit once what it had polled before a rebalance, in the generation after it: the coordinator does
not look at partitions, so once proves nothing. What a member was given from one assignment to the
next is judged by `polls`.

Unknown: a group whose members were never given a partition, or never committed anything, beside
others or alone; a kept offset that nobody asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.facts.accounts import leaders_table
from checkers.facts.leadership import key_of
from checkers.judging.excuses import Excuses, excuses
from checkers.judging.outcome import Outcome
from checkers.judging.promise import Promise
from checkers.judging.tally import RULE, Sort, add, tally
from checkers.judging.witness import Finding, Pick
from checkers.promises.groups.coordinators import NAMED, coordinators
from checkers.promises.groups.kept_groups import ASKED, EXPIRED, GONE, kept_groups
from checkers.promises.groups.never_given import never_given
from checkers.promises.groups.quiet_members import quiet_members
from checkers.promises.groups.shown_offsets import SHOWN, shown_and_lost
from checkers.promises.groups.thrown_out import STAYED, thrown_out
from checkers.promises.groups.visited_groups import LEFT, visited_groups
from checkers.promises.polls import RESET_ERRORS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from checkers.history.frames import History

BEGINNINGS: Final = "partitions given to a member, and begun"
COMMITS: Final = "acknowledged commits"
KEPT: Final = "kept offsets asked for"
REFUSED: Final = "commits of strangers refused"
_TP: Final = ["arm", "trial", "topic", "partition"]
_WHO: Final = ["arm", "trial", "process"]
_TOLD: Final = 1_000
"""So many partitions of which nobody asked are named as reasons."""
_OFTEN: Final = 3
_REFUSALS: Final = (22, 25)
"""ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID: what a coordinator says to a stranger."""
_REFUSED: Final = 3
"""So often each stranger must have been refused as such."""
_SLOT_NS: Final = 10_000_000_000
Row = Mapping[str, Any]


def check(history: History) -> Outcome:
    outcome = Outcome()
    for finding in never_given(history):
        outcome.add(finding)
    if not history.has("assignment"):
        return outcome
    commits = history.frame("commit").where("type = 'ok' and offset >= 0")
    for row in commits.groupBy("arm", "trial").count().toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], COMMITS, row["count"])
    _judge_beginnings(history, outcome, _beginnings(history, commits))
    if history.has("committed"):
        never = _never_asked(history)
        _judge_kept(outcome, _kept(history, commits))
        add(outcome, tally(never, None, _answer), _kept_otherwise)
        told = answers(history).join(F.broadcast(strangers(history)), _WHO, "left_semi")
        for finding, n in shown_and_lost(history, outcome, told, members_answers(history)):
            outcome.add(finding, n)
    _asked_for(history, outcome, commits)
    for arm, trial, why in (*_strange_groups(history, commits), *quiet_members(history)):
        outcome.unknown(arm, trial, why)
    for row in _skipped(history):
        outcome.add(_skip(row), row["n"])
    for row in _strangers(history, outcome):
        outcome.add(_obeyed(row), row["n"])
    for row in _unassigned(history, commits):
        says = f"{row['process']} committed {row['n']} times for {row['topic']}-{row['partition']}"
        outcome.unknown(row["arm"], row["trial"], f"{says}, which it had not been given")
    groups = (*kept_groups(history, outcome), *visited_groups(history, outcome))
    for finding in (*coordinators(history, outcome), *groups, *thrown_out(history, outcome)):
        outcome.add(finding)
    add(outcome, tally(_by_two(history, commits), None, _second), lambda _, row: _two(row))
    for arm, trial in history.trials:
        if not outcome.evidence[arm, trial, BEGINNINGS]:
            outcome.unknown(arm, trial, "no member of a group was given a partition and read it")
        if not outcome.evidence[arm, trial, COMMITS]:
            outcome.unknown(arm, trial, "no commit of a group was acknowledged")
    return outcome


def _beginnings(history: History, commits: DataFrame) -> DataFrame:
    """Each assignment that led to a first record, with the newest offset kept before it: `_TP`,
    process, group, offset, t, given_t, kept, kept_t."""
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
    polls = polls.join(F.broadcast(members), ["arm", "trial", "process"])
    rows = polls.unionByName(given)
    order = Window.partitionBy(*_TP, "process").orderBy("t", F.col("what") != "assigned", "offset")
    rows = rows.withColumn("_before", F.lag("what").over(order))
    rows = rows.withColumn("_given_t", F.lag("t").over(order))
    rows = rows.withColumn("group", F.coalesce("group", F.lag("group").over(order)))
    first = rows.where("what = 'got' and _before = 'assigned'")
    return _with_kept(first, commits, "_given_t").withColumnRenamed("_given_t", "given_t")


def _with_kept(rows: DataFrame, commits: DataFrame, at: str) -> DataFrame:
    """Rows with the newest offset (``kept``, asked for at ``kept_invoke_t``, acknowledged at
    ``kept_t``) of those that had been acknowledged for their partition and group before time
    ``at``: commits and rows are put in one order of time."""
    mine = [*_TP, "group", "process", "offset", "t", at]
    kept = F.struct(
        F.col("offset").alias("kept"),
        F.col("invoke_t").alias("kept_invoke_t"),
        F.col("t").alias("kept_t"),
    ).alias("_kept")
    done = commits.select(*_TP, "group", F.col("t").alias("_at"), F.lit(1).alias("_step"), kept)
    asked = rows.select(*mine, F.col(at).alias("_at"), F.lit(0).alias("_step"))
    both = asked.unionByName(done, allowMissingColumns=True)
    so_far = Window.partitionBy(*_TP, "group").orderBy("_at", "_step")
    so_far = so_far.rowsBetween(Window.unboundedPreceding, 0)
    both = both.withColumn("_newest", F.max("_kept").over(so_far)).where("_step = 0")
    return both.select(*mine, "_newest.kept", "_newest.kept_invoke_t", "_newest.kept_t")


def _judge_beginnings(history: History, outcome: Outcome, rows: DataFrame) -> None:
    back = F.coalesce(F.col("offset") < F.col("kept"), F.lit(False))
    if not _saw(outcome, rows, BEGINNINGS, back):
        return
    found = tally(rows.where(back), None, partial(_beginning, excuses(history)))
    add(outcome, found, _went_back)
    for (arm, trial, excuse), n in found.in_order():
        if excuse is not None:
            outcome.excuse(arm, trial, "group-offset-went-back", excuse, of=BEGINNINGS, n=n)


def _saw(outcome: Outcome, rows: DataFrame, what: str, suspect: Column) -> int:
    """Count what there is to judge; how many are suspects."""
    found = rows.groupBy("arm", "trial").agg(
        F.count("*").alias("n"), F.sum(suspect.cast("int")).alias("suspects")
    )
    suspects = 0
    for row in found.toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], what, row["n"])
        suspects += row["suspects"]
    return suspects


def _beginning(known: Excuses, row: Row) -> Sort:
    excuse = known.of(*key_of(row), row["t"])
    order = (row["t"], *key_of(row), row["process"])
    rule = "group-offset-went-back" if excuse is None else None
    return Sort((row["arm"], row["trial"], excuse), order, rule)


def _went_back(rule: str, row: Row) -> Finding:
    at = {"topic": row["topic"], "partition": row["partition"]}
    own = {**at, "process": row["process"]}
    return Finding(
        rule,
        f"{row['process']} of group {row['group']} was given {row['topic']}-{row['partition']} "
        f"and began at offset {row['offset']}, although {row['kept']} had been committed",
        row["arm"],
        row["trial"],
        (
            Pick("commit", {**at, "offset": row["kept"], "t": row["kept_t"]}, rows=1),
            Pick("assignment", {**own, "t": row["given_t"]}, rows=1),
            Pick("fetch", {**own, "offset": row["offset"], "t": row["t"]}, rows=1),
        ),
    )


def _kept(history: History, commits: DataFrame) -> DataFrame:
    """Each answer about a kept offset, with the newest that was acknowledged before (``kept``), and
    when the answered one was asked to be kept for the last time (``again_t``)."""
    found = _with_kept(members_answers(history), commits, "invoke_t")
    # An answer that nobody got may have come at any time.
    came = F.when(F.col("type") == "info", F.lit(2**62))
    came = F.max(came.when(F.col("type") != "fail", F.col("t")))
    tries = history.frame("commit").where("offset >= 0")
    each = tries.groupBy(*_TP, "group", "offset").agg(came.alias("again_t"))
    return found.join(each, [*_TP, "group", "offset"], "left")


def _never_asked(history: History) -> DataFrame:
    """Answers that tell of an offset that nobody had asked to be kept by then, whatever came of it
    (a client tries again by itself, and a refusal is that of its last try); with the highest that
    anybody ever did (``tried``). Whoever is asked: what a broker of the past kept, it was asked to,
    and who reads the log reads what was."""
    tries = history.frame("commit").where("offset >= 0")
    tried = tries.groupBy(*_TP, "group").agg(F.max("offset").alias("tried"))
    first = tries.groupBy(*_TP, "group", "offset").agg(F.min("invoke_t").alias("first_t"))
    told = answers(history).where("offset > 0").join(first, [*_TP, "group", "offset"], "left")
    told = told.where(~F.coalesce(F.col("first_t") <= F.col("t"), F.lit(False)))
    told = told.join(F.broadcast(tried), [*_TP, "group"], "left")
    names = (*_TP, "group", "process", "offset", "t", "tried")
    return told.select(*names, F.lit("committed-never").alias(RULE))


def answers(history: History) -> DataFrame:
    """What anybody was told of kept offsets."""
    return history.frame("committed").where("type = 'ok' and topic is not null")


def members_answers(history: History) -> DataFrame:
    """What members were told. They ask the coordinator; who asks every broker (role group-stranger)
    may ask one of the past that has not heard of that."""
    return answers(history).join(F.broadcast(strangers(history)), _WHO, "left_anti")


def strangers(history: History) -> DataFrame:
    """arm, trial, process."""
    return history.table(
        [
            {"arm": arm, "trial": trial, "process": one.process}
            for (arm, trial), workloads in history.run.workloads.items()
            for one in workloads
            if one.role == "group-stranger"
        ],
        "arm string, trial int, process string",
    )


def _judge_kept(outcome: Outcome, rows: DataFrame) -> None:
    """A commit that was tried when a newer one already was may have replaced that, whatever came of
    it: who had polled before a rebalance may commit an older offset after it."""
    replaced = F.coalesce(F.col("again_t") >= F.col("kept_invoke_t"), F.lit(False))
    lost = F.coalesce(F.col("offset") < F.col("kept"), F.lit(False)) & ~replaced
    if _saw(outcome, rows, KEPT, lost):
        wrong = rows.where(lost).withColumn(RULE, F.lit("committed-offset-lost"))
        add(outcome, tally(wrong, None, _answer), _kept_otherwise)


def _answer(row: Row) -> Sort:
    return Sort((), (row["t"], *key_of(row), row["process"]), row[RULE])


def _kept_otherwise(rule: str, row: Row) -> Finding:
    at = {"topic": row["topic"], "partition": row["partition"], "group": row["group"]}
    place = f"{row['topic']}-{row['partition']}"
    if rule == "committed-never":
        says = (
            f"{row['process']} was told offset {row['offset']} of {place} as what group "
            f"{row['group']} keeps, which nobody had asked to be kept; the highest that anybody "
            f"ever did is {row['tried']}"
        )
        commit = Pick("commit", at, last=True, rows=2)
    else:
        says = (
            f"group {row['group']} had committed offset {row['kept']} of {place}; asked "
            f"afterwards, its coordinator had {row['offset']}"
        )
        commit = Pick("commit", {**at, "offset": row["kept"], "type": "ok"}, rows=1)
    answer = Pick("committed", {**at, "t": row["t"]}, rows=1)
    return Finding(rule, says, row["arm"], row["trial"], (commit, answer))


def _asked_for(history: History, outcome: Outcome, commits: DataFrame) -> None:
    """Whether somebody asked for each partition's kept offset, after the last commit of it."""
    last = commits.groupBy(*_TP, "group").agg(F.max("t").alias("_last_t"))
    asked = members_answers(history)
    asked = asked.groupBy(*_TP, "group").agg(F.max("invoke_t").alias("_asked_t"))
    vain = last.join(asked, [*_TP, "group"], "left")
    vain = vain.where("_asked_t is null or _asked_t < _last_t")
    for row in vain.orderBy(*_TP).limit(_TOLD).toArrow().to_pylist():
        says = f"nobody was told which offset of {row['topic']}-{row['partition']} was kept"
        outcome.unknown(row["arm"], row["trial"], f"{says} for group {row['group']}")


def _skipped(history: History) -> list[dict[str, Any]]:
    """Records of the final log that a group was not given, between the first and the last that it
    was; of one whose members begin at the start, before the last."""
    members = history.frame("assignment").select("arm", "trial", "process", "group").distinct()
    whole = members.join(F.broadcast(_from_the_start(history)), ["arm", "trial", "process"], "left")
    whole = whole.groupBy("arm", "trial", "group").agg(
        F.min(F.coalesce("_start", F.lit(0))).alias("_start")
    )
    given = history.frame("fetch").where("type = 'ok' and offset >= 0")
    given = given.join(F.broadcast(members), ["arm", "trial", "process"])
    given = given.select(*_TP, "group", "offset").distinct()
    spans = given.groupBy(*_TP, "group").agg(
        F.min("offset").alias("_low"), F.max("offset").alias("_high")
    )
    spans = spans.join(F.broadcast(whole), ["arm", "trial", "group"])
    leaders = leaders_table(history).select(*_TP, "leader_node", "log_start")
    final = history.frame("log_read").join(F.broadcast(leaders), _TP).where("node = leader_node")
    inside = final.select(*_TP, "offset", "log_start").join(F.broadcast(spans), _TP)
    low = F.when(F.col("_start") == 1, F.col("log_start") - 1).otherwise(F.col("_low"))
    inside = inside.where((F.col("offset") > low) & (F.col("offset") < F.col("_high")))
    missed = inside.join(given, [*_TP, "group", "offset"], "left_anti")
    found = missed.groupBy(*_TP, "group").agg(
        F.count("*").alias("n"), F.min("offset").alias("offset")
    )
    return list(found.toArrow().to_pylist())


def _from_the_start(history: History) -> DataFrame:
    """Clients that begin at a partition's start, unless an offset is kept: arm, trial, process."""
    table = history.table(
        [
            {"arm": arm, "trial": trial, "process": one.process}
            for (arm, trial), workloads in history.run.workloads.items()
            for one in workloads
            if one.begins == "start"
        ],
        "arm string, trial int, process string",
    )
    return table.withColumn("_start", F.lit(1))


def _strangers(history: History, outcome: Outcome) -> list[dict[str, Any]]:
    """What was acknowledged to those whose part it is to be refused: by partition, the first."""
    commits = history.frame("commit").join(F.broadcast(strangers(history)), _WHO)
    refused = F.count(F.when(F.col("error").isin(*_REFUSALS), 1)).alias("n")
    there = F.count(F.when(F.col("type") == "ok", 1)).alias("obeyed")
    told = strangers(history).join(commits.groupBy(*_WHO).agg(refused, there), [*_WHO], "left")
    for row in told.na.fill(0).toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], REFUSED, row["n"])
        if row["n"] < _REFUSED and not row["obeyed"]:
            says = f"{row['process']}: {row['n']} of its commits were refused as a stranger's"
            outcome.unknown(row["arm"], row["trial"], f"{says}: too few to tell")
    names = (*_TP, "group", "process")
    obeyed = commits.where("type = 'ok'").groupBy(*names)
    found = obeyed.agg(F.count("*").alias("n"), F.min("t").alias("t"))
    return list(found.toArrow().to_pylist())


def _obeyed(row: dict[str, Any]) -> Finding:
    at = {"topic": row["topic"], "partition": row["partition"], "process": row["process"]}
    return Finding(
        "stranger-committed",
        f"{row['process']}, which is no member of group {row['group']}, had {row['n']} commits for "
        f"{row['topic']}-{row['partition']} acknowledged",
        row["arm"],
        row["trial"],
        (Pick("commit", {**at, "t": row["t"]}, rows=1),),
    )


def _strange_groups(history: History, commits: DataFrame) -> Iterator[tuple[str, int, str]]:
    """Groups whose members were given partitions and never committed, or the other way round: what
    is kept for them is held against nobody. A trial without any commit is unknown by itself."""
    members, committing = (
        {(row["arm"], row["trial"], row["group"]) for row in rows.toArrow().to_pylist()}
        for rows in (
            frame.select("arm", "trial", "group").distinct()
            for frame in (history.frame("assignment"), commits)
        )
    )
    both = {key[:2] for key in members} & {key[:2] for key in committing}
    for arm, trial, group in sorted(members ^ committing, key=str):
        if (arm, trial) in both:
            one = (arm, trial, group) in members
            says = "has members, and no commit of it was acknowledged"
            says = says if one else "has commits, and nobody was given a partition as its member"
            yield arm, trial, f"group {group} {says}"


def _unassigned(history: History, commits: DataFrame) -> list[dict[str, Any]]:
    """Commits of a member for what nobody had given it by then: the coordinator does not look at
    partitions, so that it is the client's own account that cannot be."""
    given = history.frame("assignment").where("event = 'assigned'")
    first = given.groupBy(*_TP, "process").agg(F.min("t").alias("_first_t"))
    rows = commits.join(F.broadcast(first), [*_TP, "process"], "left")
    odd = rows.where("_first_t is null or t < _first_t").groupBy(*_TP, "process")
    return list(odd.agg(F.count("*").alias("n")).toArrow().to_pylist())


def _by_two(history: History, commits: DataFrame) -> DataFrame:
    """Pairs of members that committed for one partition in turn, each in a term of its own.

    A member's term begins when it was given the partition. What the other one began to commit after
    that, and had acknowledged before the member committed again in the same term, it committed for
    what was not its own. Terms are listed under each slot of time that they touch.
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
    slots = F.sequence(_slot("term_t"), _slot("last_invoke_t"))
    terms = terms.where("term_t <= last_invoke_t").withColumn("_slot", F.explode(slots))
    kept = kept.withColumn("_slot", _slot("invoke_t"))
    same = (F.col("o.process") != F.col("m.process")) & (F.col("o.invoke_t") > F.col("m.term_t"))
    same = same & (F.col("o.t") < F.col("m.last_invoke_t"))
    for name in (*_TP, "group", "_slot"):
        same = same & (F.col(f"o.{name}") == F.col(f"m.{name}"))
    joined = kept.alias("o").join(terms.alias("m"), same)
    found = joined.groupBy(
        *(F.col(f"m.{name}").alias(name) for name in (*_TP, "group", "process", "term_t")),
        F.col("o.process").alias("other"),
        F.col("o.term_t").alias("other_term_t"),
    ).agg(F.count("*").alias("n"), F.min("o.t").alias("t"))
    return found.where(F.col("n") >= _OFTEN)


def _slot(t: str) -> Column:
    return F.expr(f"{t} div {_SLOT_NS}")


def _second(row: Row) -> Sort:
    return Sort((), (row["t"], *key_of(row), row["process"], row["other"]), "committed-by-two")


def _two(row: Row) -> Finding:
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
        f"{row['topic']}-{row['partition']} that lie before others that it was given, the first at "
        f"offset {row['offset']}",
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
        "shown-offset-lost": "An offset that a coordinator told of is kept.",
        "group-skipped": "Together a group's members are given every record.",
        "stranger-committed": "Only members of the present generation commit.",
        "committed-by-two": "A partition is one member's at a time.",
        "kept-offset-lost": "A group without members keeps its positions.",
        "deleted-group-back": "A group that is deleted stays deleted.",
        "expired-offset-kept": "A position is kept for as long as was asked, and no longer.",
        "joined-without-id": "Who asks to join is given an id first, and is no member by that.",
        "visitor-remembered": "A group that nobody came to join is forgotten.",
        "group-never-formed": "Where members poll, partitions are given to them.",
        "thrown-out": "Who polls stays a member of its group.",
        "coordinator-superseded": "Every live broker names the group's present coordinator.",
        "coordinator-never-led": "Who is named as a group's coordinator has led its partition.",
    },
    evidence={
        BEGINNINGS: "by assignment",
        COMMITS: "by the coordinator's answer",
        KEPT: "before each commit and at the end, by its members",
        SHOWN: "by whom it was asked for, member or not",
        ASKED: "acknowledged, not deleted yet, and not over",
        GONE: "by coordinators that were not replaced as they deleted them",
        EXPIRED: "of groups without members, once all was calm",
        LEFT: "of whom nobody came back, once all was calm",
        STAYED: "that had something, and polled to the end",
        NAMED: "by brokers that were asked, each by itself",
        REFUSED: "of members that never were, and of generations of the past",
    },
    unknown_when=(
        "no member was given a partition, or none committed",
        "nobody asked for an offset that was kept",
        "a member committed for a partition that it never had",
        "a group has members and no commits, or commits and no members; a member tells of no "
        "commit, or of no partition, though it was given records",
        "a stranger that commits was hardly ever refused as one, and never obeyed",
    ),
    blind=(
        "records given twice by turns of less than three commits",
        "a partition that two members were given at once, and read: only commits are fenced",
        "a position out of range that a member told of as it was given a partition, and after "
        "which it went on where it was",
        "groups whose members use no subscription",
        "how long a rebalance takes, and whom it waits for, if it comes to an end",
        "positions in topics that are deleted",
    ),
    timed=frozenset(
        {
            *("kept-offset-lost", "expired-offset-kept", "visitor-remembered"),
            *("group-never-formed", "thrown-out", "coordinator-superseded"),
        }
    ),
    check=check,
)
