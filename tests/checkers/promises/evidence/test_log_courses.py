"""One log by its broker's own rows: cuts out of course, and what looks alike and is lawful."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from checkers.promises.evidence.log_courses import out_of_course
from tests.checkers.conftest import Story

Edit = Callable[[Story], Any]


def sound() -> Story:
    """Broker 2 follows with ten records, cuts two as it follows in the next leader epoch, fetches
    on, and leads."""
    story = Story()
    for seq, (role, epoch, end) in enumerate(
        (("follower", 1, 10), ("follower", 2, 10), ("leader", 3, 20))
    ):
        fields = {"role": role, "leader": 2 if role == "leader" else 1, "leader_epoch": epoch}
        fields |= {"log_end_offset": end, "boot": 1, "seq": 10 * seq}
        story.add("leader_change", 1_000 * seq, node=2, **fields)
    cut(story, 15)
    return story


def cut(story: Story, seq: int, **more: Any) -> None:
    fields = {"from_offset": 10, "to_offset": 8, "leader_epoch": 2, "boot": 1, "seq": seq, **more}
    story.add("truncation", 100 * seq, node=2, **{"reason": "diverging epoch", **fields})


def cuts(number: int = 0, **fields: Any) -> Edit:
    return lambda story: story.rows["truncation"][number].update(fields)


def unnumbered(story: Story) -> None:
    for rows in story.rows.values():
        for row in rows:
            row["seq"] = None


def another_boot(story: Story) -> None:
    story.rows["leader_change"][2].update(boot=2, seq=0)


def together(*edits: Edit) -> Edit:
    def all_of(story: Story) -> None:
        for edit in edits:
            edit(story)

    return all_of


CUTS: dict[str, tuple[Edit, bool]] = {
    "as it was": (lambda s: None, False),
    "in the epoch after next": (cuts(leader_epoch=4), True),
    "in an epoch of another boot": (together(cuts(boot=2, seq=1), another_boot), True),
    "told after the next role": (cuts(seq=25), False),
    "from below where the role began": (cuts(from_offset=9), True),
    "from above that": (cuts(from_offset=12), False),
    "from below where it was cut": (lambda s: cut(s, 16, from_offset=7, to_offset=6), True),
    "once more": (lambda s: cut(s, 16, from_offset=8, to_offset=7), False),
    "once more, after the replica was stopped": (
        lambda s: (
            s.add("replica_stop", 1_600, node=2, delete=False, boot=1, seq=16),
            cut(s, 17, from_offset=7, to_offset=6),
        ),
        False,
    ),
    "of its beginning": (cuts(reason="log start: deleted", leader_epoch=9), False),
    "by a system's own log": (together(cuts(leader_epoch=4), unnumbered), False),
}


def test_cuts_out_of_course(spark: Any) -> None:
    story = Story()
    for number, (edit, _) in enumerate(CUTS.values()):
        one = sound()
        edit(one)
        for kind, rows in one.rows.items():
            story.rows.setdefault(kind, []).extend({**row, "trial": number} for row in rows)
    found = list(out_of_course(story.history(spark)))
    assert [list(CUTS)[key[1]] for key, _ in found] == [n for n, (_, odd) in CUTS.items() if odd]
    assert all(says.startswith("node 2 tells of 1 cuts in a leader epoch") for _, says in found)
