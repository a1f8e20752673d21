"""Groups: does a consumer group go on where it was?

Guarantee: an offset that the coordinator acknowledged is kept, whoever coordinates next; whoever is
given a partition goes on from the newest kept offset; and together a group's members are given
every record (at least once).

Violations:
- ``group-offset-went-back``: a member that was given a partition began before an offset whose
  commit had been acknowledged before;
- ``committed-offset-lost``: asked for an offset, by a member or, once all is calm, by anybody, the
  coordinator has an older one than one that it had acknowledged, or none, and nobody can have
  committed that since;
- ``committed-never``: asked for an offset, by a member or by whoever asks every broker, one has an
  offset that nobody had asked it to keep by then; also by who alone commits for a group
  (`invented_positions`);
- ``committed-otherwise``: a position was told with metadata, or a leader epoch, that nobody had
  committed with it (`noted`);
- ``shown-offset-lost``: an offset that somebody was told of is not there when a member asks later
  (`shown_offsets`);
- ``shown-before-kept``: a broker told a position while it was asked to keep it, and then refused to
  (`shown_too_soon`);
- ``group-skipped``: of one partition, a record between two that members were given, or before them
  all where each member begins at the start unless an offset is kept (run.json), which is in the
  final log and was given to none of them;
- ``stranger-committed``: somebody who never was a member, or not of the present generation, had a
  commit acknowledged (role group-stranger: it is to be refused whatever it says);
- ``coordinator-never-led``: a broker names one who had not led the group's partition by then;
- ``coordinator-superseded``, ``coordinator-untold``: once all is calm a broker names another as the
  group's coordinator than who leads the group's partition, or nobody (`coordinators`);
- ``coordinator-denies``, ``another-coordinates``: who leads it says then that it does not
  coordinate the group, or somebody else acts as if it did (`denying`); before that, who leads it
  all along and has answered as its coordinator, and who has not led it, or has said that it does
  no more (`in_office`);
- ``memberless-refused``: a group that nobody ever joined is treated as if it had members
  (`memberless`);
- ``kept-offset-lost``, ``deleted-group-back``, ``deleted-position-back``,
  ``expired-offset-kept``, ``expired-offset-back``: of groups without members (`kept_groups`,
  `raised_positions`);
- ``listed-otherwise``: of the groups that a coordinator lists to an operator (`listed_groups`);
- ``joined-without-id``, ``visitor-remembered``: of groups that somebody asks to join who never
  comes back (`visited_groups`);
- ``left-and-member``: who left in order is told that it is a member (`left_members`);
- ``left-waiting-to-join``: who waits at a coordinator that is deposed is not told so
  (`waiting_members`);
- ``kept-waiting``, ``put-out-too-soon``: of members that say nothing, and of who comes after them
  (`absent_members`);
- ``member-denied``: of members whose group another coordinates now (`known_members`);
- ``read-position-lost``: of a member, in a topic that it reads (`read_positions`);
- ``members-untold``: of a stable group, of what its members read (`described_members`);
  ``state-otherwise``: of whether it is stable, while a member lives in it (`described_states`);
- ``member-told-otherwise``: of members, by what they had said themselves (`told_otherwise`);
- ``member-refused``: of members within their time, whatever they ask for (`refused_members`);
- ``member-fenced``: of a member that came back in its own name (`fenced_members`);
- ``rebalance-untold``, ``commit-refused``: of members that are to join anew (`told_members`);
- ``generation-not-raised``: of the generation that they are of then (`later_generations`);
- ``protocol-otherwise``: of what their group goes by (`chosen_protocols`);
- ``group-never-formed``: members of a group poll, and none is ever given anything (`never_given`);
- ``kept-out``: once all is calm all members have given up what they had, and none is given
  anything (`kept_out`);
- ``thrown-out``: once all is calm a member is told that it is none any more, though it polls
  (`thrown_out`);
- ``assigned-to-two``: once all is calm a member is given a partition that another one still holds
  (`assigned_to_two`);
- ``committed-by-two``: while one member has a partition and commits for it, another commits for it
  as well, again and again (`two_members`): both were given it, or a past generation is obeyed.

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

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.judging.outcome import Outcome
from checkers.judging.promise import Promise
from checkers.promises.groups.absent_members import AWAITED, absent_members
from checkers.promises.groups.assigned_to_two import GIVEN, assigned_to_two
from checkers.promises.groups.chosen_protocols import CHOSEN, chosen_protocols
from checkers.promises.groups.coordinators import NAMED, coordinators
from checkers.promises.groups.denying import SERVED, denying
from checkers.promises.groups.described_members import DESCRIBED, described_members
from checkers.promises.groups.described_states import STATES, described_states
from checkers.promises.groups.fenced_members import fenced_members
from checkers.promises.groups.in_office import IN_OFFICE, in_office
from checkers.promises.groups.invented_positions import TOLD_ALONE, invented_positions
from checkers.promises.groups.kept_groups import ASKED, EXPIRED, GONE, kept_groups
from checkers.promises.groups.kept_offsets import BEGINNINGS, KEPT, kept_offsets
from checkers.promises.groups.kept_out import ANEW, kept_out
from checkers.promises.groups.known_members import KNOWN, known_members
from checkers.promises.groups.later_generations import LATER, later_generations
from checkers.promises.groups.left_members import PARTED, left_members
from checkers.promises.groups.listed_groups import LISTED, listed_groups
from checkers.promises.groups.memberless import UNJOINED, memberless
from checkers.promises.groups.never_given import never_given
from checkers.promises.groups.noted import NOTED, noted
from checkers.promises.groups.quiet_members import quiet_members
from checkers.promises.groups.raised_positions import RAISED, raised_positions
from checkers.promises.groups.read_positions import READ, read_positions
from checkers.promises.groups.refused_members import WITHIN, refused_members
from checkers.promises.groups.shown_offsets import SHOWN, shown_and_lost
from checkers.promises.groups.shown_too_soon import SEEN, shown_too_soon
from checkers.promises.groups.skipped import skipped
from checkers.promises.groups.strangers import (
    REFUSED,
    WHO,
    answers,
    members_answers,
    obeyed,
    strangers,
)
from checkers.promises.groups.thrown_out import STAYED, thrown_out
from checkers.promises.groups.told_members import KEPT as KEPT_BY_TOLD
from checkers.promises.groups.told_members import TOLD, told_members
from checkers.promises.groups.told_otherwise import ALIKE, told_otherwise
from checkers.promises.groups.two_members import two_members
from checkers.promises.groups.visited_groups import LEFT, visited_groups
from checkers.promises.groups.waiting_members import WAITED, waiting_members

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

COMMITS: Final = "acknowledged commits"
_TP: Final = ["arm", "trial", "topic", "partition"]


def check(history: History) -> Outcome:
    outcome = Outcome()
    for finding in never_given(history):
        outcome.add(finding)
    if not history.has("assignment"):
        return outcome
    commits = history.frame("commit").where("type = 'ok' and offset >= 0")
    for row in commits.groupBy("arm", "trial").count().toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], COMMITS, row["count"])
    kept_offsets(history, outcome, commits)
    if history.has("committed"):
        noted(history, outcome)
        told = answers(history).join(F.broadcast(strangers(history)), WHO, "left_semi")
        for finding, n in shown_and_lost(history, outcome, told, members_answers(history)):
            outcome.add(finding, n)
    for arm, trial, why in (*_strange_groups(history, commits), *quiet_members(history)):
        outcome.unknown(arm, trial, why)
    for finding, n in (*skipped(history), *obeyed(history, outcome)):
        outcome.add(finding, n)
    for row in _unassigned(history, commits):
        says = f"{row['process']} committed {row['n']} times for {row['topic']}-{row['partition']}"
        outcome.unknown(row["arm"], row["trial"], f"{says}, which it had not been given")
    groups = (
        *waiting_members(history, outcome),
        *shown_too_soon(history, outcome),
    )
    members = (*thrown_out(history, outcome), *kept_out(history, outcome))
    held = (*assigned_to_two(history, outcome),)
    offices = (*coordinators(history, outcome), *denying(history, outcome))
    for finding in (*offices, *groups, *members, *held):
        outcome.add(finding)
    in_courses = (
        *kept_groups(history, outcome),
        *visited_groups(history, outcome),
        *listed_groups(history, outcome),
        *memberless(history, outcome),
        *left_members(history, outcome),
        *raised_positions(history, outcome),
        *absent_members(history, outcome),
        *known_members(history, outcome),
        *refused_members(history, outcome),
        *fenced_members(history, outcome),
        *told_members(history, outcome),
        *later_generations(history, outcome),
        *described_members(history, outcome),
        *described_states(history, outcome),
        *chosen_protocols(history, outcome),
        *told_otherwise(history, outcome),
        *read_positions(history, outcome),
        *invented_positions(history, outcome),
        *in_office(history, outcome),
    )
    for finding, n in in_courses:
        outcome.add(finding, n)
    two_members(history, outcome, commits)
    for arm, trial in history.trials:
        if not outcome.evidence[arm, trial, BEGINNINGS]:
            outcome.unknown(arm, trial, "no member of a group was given a partition and read it")
        if not outcome.evidence[arm, trial, COMMITS]:
            outcome.unknown(arm, trial, "no commit of a group was acknowledged")
    return outcome


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


PROMISE: Final = Promise(
    name="groups",
    says="A consumer group goes on where it was, and its members are given every record.",
    source="Kafka's GroupCoordinator and GroupMetadataManager; Jepsen's Kafka workload (subscribe)",
    rules={
        "group-offset-went-back": "Who is given a partition goes on from the kept offset.",
        "committed-offset-lost": "An acknowledged offset is kept.",
        "committed-never": "The coordinator keeps only what it was asked to keep.",
        "committed-otherwise": "A position is told with what was committed with it.",
        "shown-offset-lost": "An offset that a coordinator told of is kept.",
        "shown-before-kept": "An offset is told of when it is kept, and not before.",
        "group-skipped": "Together a group's members are given every record.",
        "stranger-committed": "Only members of the present generation commit.",
        "assigned-to-two": "Nobody is given a partition before another member gave it up.",
        "committed-by-two": "A partition is one member's at a time.",
        "kept-offset-lost": "A group without members keeps its positions.",
        "deleted-group-back": "A group that is deleted stays deleted.",
        "deleted-position-back": "A position that is deleted stays deleted.",
        "expired-offset-kept": "A position is kept for as long as was asked, and no longer.",
        "expired-offset-back": "A position whose time is over, and which is gone, stays gone.",
        "listed-otherwise": "A coordinator lists its groups, and no others.",
        "joined-without-id": "Who asks to join is given an id first, and is no member by that.",
        "visitor-remembered": "A group that nobody came to join is forgotten.",
        "left-and-member": "Who leaves in order is a member no more.",
        "left-waiting-to-join": "Who waits at a coordinator of the past is told so at once.",
        "kept-waiting": "A member that says nothing is waited for until its time is over.",
        "member-denied": "Who says in time that it lives is a member, whoever coordinates.",
        "read-position-lost": "A position in what its member reads stays as long as that does.",
        "members-untold": "Who asks of a stable group is told of its members.",
        "state-otherwise": "Of a group in which a member lives nobody says that it has none.",
        "member-told-otherwise": "Of a group's members is told what they said themselves.",
        "member-refused": "Who was let in may do what members do until its time is over.",
        "member-fenced": "Who comes back in its own name is known by its new id.",
        "put-out-too-soon": "A member may be silent until its time is over.",
        "rebalance-untold": "Who is in a group that others join or leave is told so.",
        "generation-not-raised": "A group that comes together anew is of a later generation.",
        "protocol-otherwise": "A group goes by a protocol that its members offer.",
        "commit-refused": "A member that is to join anew may commit until it does.",
        "group-never-formed": "Where members of a group poll, partitions are given to them.",
        "kept-out": "When all have joined anew, partitions are given to them at once.",
        "thrown-out": "Who polls stays a member of its group.",
        "coordinator-superseded": "Every live broker names the group's present coordinator.",
        "coordinator-untold": "Every live broker knows the group's present coordinator.",
        "coordinator-denies": "Who coordinates a group does not answer that it does not.",
        "memberless-refused": "Positions of a group without members need no membership.",
        "another-coordinates": "Who does not coordinate a group does nothing for it.",
        "coordinator-never-led": "Who is named as a group's coordinator has led its partition.",
    },
    evidence={
        BEGINNINGS: "by assignment",
        COMMITS: "by the coordinator's answer",
        KEPT: "before each commit and at the end, by its members",
        NOTED: "metadata and leader epoch, by members",
        SHOWN: "by whom it was asked for, member or not",
        SEEN: "of brokers that were asked to keep each once",
        ASKED: "acknowledged, not deleted yet, and not over",
        RAISED: "of who kept a lower one, or began to lead the group's partition afterwards",
        GONE: "by coordinators that were not replaced as they deleted them",
        EXPIRED: "of groups without members, once all was calm",
        LISTED: "once all was calm, by each broker",
        LEFT: "of whom nobody came back, once all was calm",
        UNJOINED: "by each broker",
        PARTED: "told by the coordinator that had let them go",
        WAITED: "that nothing kept from answering",
        KNOWN: "told so by their heartbeats, without having joined anew",
        WITHIN: "of what they are given, of positions to keep, and of leaving",
        AWAITED: "at coordinators that stayed, and that nothing kept from answering",
        TOLD: "as another joined, left, or was missed",
        LATER: "as they were told, at the same coordinator",
        CHOSEN: "by their coordinator, with the partitions' assignment to come",
        KEPT_BY_TOLD: "before they did",
        ANEW: "by rebalance, of members that can all have been waited for",
        GIVEN: "by the client, as it takes them up",
        STAYED: "that had something, and polled to the end",
        NAMED: "by brokers that were asked, each by itself",
        IN_OFFICE: "that lead their partition all along, and nothing keeps from answering",
        SERVED: "of who leads their partition, and of others, by who says whom it asked",
        TOLD_ALONE: "of groups that one client does everything with",
        READ: "by themselves, of who had kept them",
        DESCRIBED: "by who coordinates them, to who is no member",
        STATES: "told by who coordinates it",
        ALIKE: "of who plays all members of its group",
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
        "a rebalance that a member is told of without a cause, and that comes to an end",
        "when positions go that are kept for offsets.retention.minutes after their group became "
        "empty: no run lasts for minutes after that",
        "who comes back in its own name and is fenced before anything is kept for it",
        "what a member is told of its membership as it joins (a group without members may be "
        "forgotten meanwhile), or after somebody else began to join",
        "before all is calm: who says that it is no coordinator within seconds of becoming it, or "
        "of a fault of its own, or who was just succeeded and acts on; who acts for a group about "
        "which it had said nothing before, and had led; whom a broker names then",
        "whether a group that nobody was let into is told of as empty, or not at all, before all "
        "is calm",
        "a partition that two members were given at once, and read, before all is calm, or while "
        "one of them does not poll: only commits are fenced",
        "a position out of range that a member told of as it was given a partition, and after "
        "which it went on where it was",
        "groups whose members use no subscription",
        "positions that a member was refused and that are kept all the same: its client's first "
        "try may have been (a stranger, who tries once, is judged)",
        "how long a rebalance takes, if it comes to an end, before all is calm or while a member "
        "keeps what it had, and whom it waits for but who left, or came and was never heard of "
        "again",
        "older positions that others than members are told before all is calm: they ask whom they "
        "like",
        "positions in topics that are deleted (`topic-deletion` looks at some)",
        "coordinators that turn members away who do not say whom they asked; how long one that "
        "answers takes to keep or to tell a position, and any broker to name a coordinator",
        "what a description says of a group that keeps positions (its state), of members' hosts, "
        "and of members that others play than who asks (of subscription and assignment that "
        "something is told is judged); a leader epoch that is not kept with a position at all; "
        "what members of groups that clients' own libraries play are told of one another",
    ),
    timed=frozenset(
        {
            *("kept-offset-lost", "expired-offset-kept", "visitor-remembered"),
            *("group-never-formed", "kept-out", "thrown-out", "coordinator-superseded"),
            *("coordinator-untold", "coordinator-denies", "another-coordinates", "kept-waiting"),
            *("member-refused", "assigned-to-two"),
        }
    ),
    check=check,
)
