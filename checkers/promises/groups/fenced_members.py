"""Members that are told that another came in their name, for `checkers.promises.groups`.

A member with a name of its own (group.instance.id, KIP-345) that comes back takes the place that it
had, under a new id, and who had the old id is refused from then on (FENCED_INSTANCE_ID). That is
written to the group's log before it is answered: the next coordinator must know the new one
(KAFKA-10284, GroupCoordinator.updateStaticMemberAndRebalance).

- ``member-fenced``: a coordinator that had kept something for a member, since that was last given
  its partitions, or its successor, answers that another has come in its name. Here nobody does:
  each member's name is its own.

Lawful, and looks similar: who is fenced before anything was kept for it. Its first try to come back
may have been heard late, after its second one, and then has taken its place (librdkafka tries again
where it is not answered).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.unions import named, united
from checkers.judging.courses import in_courses
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "member-fenced"
_FENCED_INSTANCE_ID: Final = 82
_BY: Final = ["arm", "trial", "process"]
Row = Mapping[str, Any]


def fenced_members(history: History, outcome: Outcome) -> Iterator[tuple[Finding, int]]:
    commits = history.frame("commit").where("offset is not null")
    fenced = commits.where(f"error = {_FENCED_INSTANCE_ID}").select(*_BY).distinct()
    told = commits.where(f"type = 'ok' or error = {_FENCED_INSTANCE_ID}")
    given = history.frame("assignment").where("event = 'assigned'")
    rows = united(
        told.select(*_BY, "group", "error", "invoke_t", "t", named("commit")),
        given.select(*_BY, "group", "t", named("assignment")),
    )
    yield from in_courses(outcome, rows.join(fenced, _BY, "left_semi"), _BY, ["t"], _of_member)


def _of_member(rows: list[Row], _outcome: Outcome) -> Iterator[Finding]:
    given: Row | None = None
    kept: Row | None = None
    for row in rows:
        if row["kind"] == "assignment":
            given, kept = row, None
        elif row["error"] != _FENCED_INSTANCE_ID:
            if given is not None and row["invoke_t"] > given["t"]:
                kept = row
        elif kept is not None and row["invoke_t"] > kept["t"]:
            yield _finding(kept, row)
            kept = None


def _finding(kept: Row, row: Row) -> Finding:
    own = {"process": row["process"], "group": row["group"]}
    return Finding(
        RULE,
        f"{row['process']} was refused a commit as if another had come to group {row['group']} in "
        f"its name, {(row['t'] - kept['t']) / 1e9:.1f} s after another commit of its was kept; "
        "nobody else has that name",
        row["arm"],
        row["trial"],
        (
            Pick("assignment", {**own, "event": "assigned"}, to_t=kept["t"], last=True, rows=1),
            Pick("commit", {**own, "t": kept["t"]}, rows=1),
            Pick("commit", {**own, "t": row["t"]}, rows=1),
        ),
    )
