"""Groups without members: what they keep, what is deleted with them, and what goes with its time;
both ways."""

from __future__ import annotations

import pytest

from checkers.promises.groups.kept_groups import ASKED, CHECK_INTERVAL, EXPIRED, GONE, kept_groups
from checkers.promises.groups.offices import OFFSETS_TOPIC, partition_of
from tests.checkers.conftest import Story
from tests.checkers.together import Asks, judging, ruled

LOST, BACK, STALE = "kept-offset-lost", "deleted-group-back", "expired-offset-kept"

GROUP, PARTITIONS = "kept-3", 3
DELETED = 20_000


def step(told: Story, t: float, what: str, offset: int = -1, **more: object) -> None:
    fields = {"node": 1, "group": GROUP, "step": what, "offset": offset, "error": 0, **more}
    told.add("group_step", t, **fields)


def moved(told: Story, t: float, epoch: int, *, partition: int | None = None) -> None:
    where = partition_of(GROUP, PARTITIONS) if partition is None else partition
    told.commit(t, 1 + epoch % 3, epoch, topic=OFFSETS_TOPIC, partition=where)


def story() -> Story:
    """Committed at 10 s, told at 11 s, deleted at 20 s, and asked for in vain at 25 s."""
    told = Story()
    for partition in range(PARTITIONS):
        moved(told, 1_000, 0, partition=partition)
    step(told, 10_000, "commit", 7)
    step(told, 11_000, "ask", 7)
    step(told, DELETED, "delete")
    step(told, 25_000, "ask")
    return told


def ended(told: Story, t: float, node: int = 1, event: str = "kill") -> None:
    told.add("node_event", t, node=node, event=event)


def held(told: Story, from_t: float, to_t: float, node: int = 1) -> None:
    """A fault that keeps from its followers what a broker has."""
    for phase, t in (("inject", from_t), ("injected", to_t - 10), ("healed", to_t)):
        told.add("fault", t, fault="lagged-move", id="h", phase=phase, nodes=[node], detail="{}")


def back(told: Story, t: float = 26_000, **more: object) -> None:
    step(told, t, "ask", 7, node=2, **more)


CASES = {
    "lost": (lambda s: step(s, 12_000, "ask"), LOST),
    "lost, at another coordinator": (lambda s: step(s, 12_000, "ask", node=3), LOST),
    "another one": (lambda s: step(s, 12_000, "ask", 6), LOST),
    "no such group to delete": (
        lambda s: step(s, 12_000, "delete", type="fail", error=69, invoke_t=11_990),
        LOST,
    ),
    "no such group to delete, as another was asked in vain": (
        lambda s: (
            step(s, 12_000, "delete", type="fail", error=16, node=3),
            step(s, 13_000, "delete", type="fail", error=69, invoke_t=12_990),
        ),
        LOST,
    ),
    "no such group to delete, as who had it says that it is another's": (
        lambda s: (
            step(s, 12_000, "delete", type="fail", error=16, invoke_t=11_950),
            step(s, 13_000, "delete", type="fail", error=69, invoke_t=12_990),
        ),
        LOST,
    ),
    "no such group to delete, as who had it said so late, by its own word": (
        lambda s: (
            step(s, 12_000, "delete", type="fail", error=16, invoke_t=11_600),
            step(s, 13_000, "delete", type="fail", error=69, invoke_t=12_990),
        ),
        LOST,
    ),
    "no such group to delete, as who lost it meanwhile said so late": (
        lambda s: (
            moved(s, 11_900, 1),
            step(s, 12_000, "delete", type="fail", error=16, invoke_t=11_600),
            step(s, 13_000, "delete", type="fail", error=69, invoke_t=12_990, node=2),
        ),
        None,
    ),
    "as who lost it meanwhile said so when it had waited": (
        lambda s: (
            moved(s, 11_900, 1),
            step(s, 12_000, "delete", type="fail", error=16, invoke_t=11_979),
            step(s, 13_000, "delete", type="fail", error=69, invoke_t=12_990, node=2),
        ),
        None,
    ),
    "as who lost it meanwhile said so at once": (
        lambda s: (
            moved(s, 11_900, 1),
            step(s, 12_000, "delete", type="fail", error=16, invoke_t=11_981),
            step(s, 13_000, "delete", type="fail", error=69, invoke_t=12_990, node=2),
        ),
        LOST,
    ),
    "no such group to delete, as who led on meanwhile said so late": (
        lambda s: (
            moved(s, 11_900, 3),
            step(s, 12_000, "delete", type="fail", error=16, invoke_t=11_600),
            step(s, 13_000, "delete", type="fail", error=69, invoke_t=12_990),
        ),
        LOST,
    ),
    "none any more, before that was asked for": (
        lambda s: (
            step(s, 11_500, "ask"),
            moved(s, 11_900, 1),
            step(s, 12_000, "delete", type="fail", error=16, invoke_t=11_600),
        ),
        LOST,
    ),
    "no such group to delete, as who never had it said so late": (
        lambda s: (
            step(s, 12_000, "delete", type="fail", error=16, node=3, invoke_t=11_600),
            step(s, 13_000, "delete", type="fail", error=69, invoke_t=12_990),
        ),
        LOST,
    ),
    "no such group to delete a position of": (
        lambda s: step(s, 12_000, "spare", type="fail", error=69),
        LOST,
    ),
    "no such group, as another tries to delete it": (
        lambda s: (
            step(s, 12_000, "delete", type="info", error=7),
            step(s, 13_000, "clear", type="fail", error=69),
        ),
        None,
    ),
    "no such group any more": (lambda s: step(s, 26_000, "delete", type="fail", error=69), None),
    "asked before": (lambda s: step(s, 10_500, "ask", invoke_t=9_000), None),
    "somebody tried to delete it": (
        lambda s: (step(s, 12_000, "delete", type="info", error=7), step(s, 13_000, "ask")),
        None,
    ),
    "refused": (lambda s: step(s, 12_000, "ask", type="fail", error=16), None),
    "back": (back, BACK),
    "back with another coordinator": (lambda s: (moved(s, 23_000, 1), back(s)), BACK),
    "back after the death of another": (lambda s: (ended(s, 21_000, 2), back(s)), BACK),
    "back long after its death": (lambda s: (ended(s, 25_000), back(s)), BACK),
    "told soon after": (lambda s: back(s, DELETED + 1_000), None),
    "its coordinator died": (lambda s: (ended(s, DELETED + 3_000), back(s)), None),
    "its coordinator was paused": (
        lambda s: (ended(s, DELETED + 3_000, event="pause"), back(s)),
        None,
    ),
    "its coordinator was just replaced": (lambda s: (moved(s, DELETED + 500, 1), back(s)), None),
    "it was replaced while its followers were held": (
        lambda s: (
            held(s, DELETED - 200, DELETED + 2_000),
            moved(s, DELETED + 1_700, 1),
            back(s),
        ),
        None,
    ),
    "it was replaced while another's were held": (
        lambda s: (
            held(s, DELETED - 200, DELETED + 2_000, 2),
            moved(s, DELETED + 1_700, 1),
            back(s),
        ),
        BACK,
    ),
    "it was replaced long after its followers were held": (
        lambda s: (
            held(s, DELETED - 200, DELETED + 500),
            moved(s, DELETED + 1_700, 1),
            back(s),
        ),
        BACK,
    ),
    "its followers had been held before": (
        lambda s: (held(s, DELETED - 900, DELETED - 200), moved(s, DELETED + 1_700, 1), back(s)),
        BACK,
    ),
    "its followers were held a good while later": (
        lambda s: (
            held(s, DELETED + 1_200, DELETED + 2_500),
            moved(s, DELETED + 1_700, 1),
            back(s),
        ),
        BACK,
    ),
    "its coordinator had been replaced": (
        lambda s: (moved(s, DELETED - 3_000, 1), back(s)),
        None,
    ),
    "another partition moved": (
        lambda s: (
            moved(s, DELETED + 500, 1, partition=(partition_of(GROUP, PARTITIONS) + 1) % 3),
            back(s),
        ),
        BACK,
    ),
    "a commit may be late": (
        lambda s: (step(s, 9_000, "commit", 7, type="info", error=7), back(s)),
        None,
    ),
}


CLEARED = "deleted-position-back"


def cleared() -> Story:
    """The same, but that its position is deleted, and one before that it never had."""
    told = Story()
    for partition in range(PARTITIONS):
        moved(told, 1_000, 0, partition=partition)
    step(told, 10_000, "commit", 7)
    step(told, 10_500, "spare")
    step(told, 11_000, "ask", 7)
    step(told, DELETED, "clear")
    step(told, 25_000, "ask")
    return told


CLEARINGS = {
    "gone": (lambda s: None, None),
    "back": (back, CLEARED),
    "back with another coordinator": (lambda s: (moved(s, 23_000, 1), back(s)), CLEARED),
    "its coordinator died": (lambda s: (ended(s, DELETED + 3_000), back(s)), None),
    "lost with one that it never had": (lambda s: step(s, 12_000, "ask"), LOST),
    "somebody tried": (
        lambda s: (step(s, 12_000, "clear", type="info", error=7), step(s, 13_000, "ask")),
        None,
    ),
    "refused": (lambda s: step(s, 12_000, "clear", type="fail", error=16), None),
}


@pytest.mark.parametrize("name", CLEARINGS)
@judging(ruled(kept_groups))
def test_a_position_that_is_deleted_goes_and_no_other(name: str) -> Asks:
    tell, rule = CLEARINGS[name]
    told = cleared()
    tell(told)
    outcome = yield told
    assert [f.rule for f in outcome.findings] == ([] if rule is None else [rule])
    if rule == CLEARED:
        assert outcome.evidence[told.arm, 0, GONE] == 2


@pytest.mark.parametrize("name", CASES)
@judging(ruled(kept_groups))
def test_what_a_group_without_members_keeps_goes_when_it_is_deleted(name: str) -> Asks:
    tell, rule = CASES[name]
    told = story()
    tell(told)
    outcome = yield told
    assert [f.rule for f in outcome.findings] == ([] if rule is None else [rule])
    if rule == BACK:
        assert outcome.evidence[told.arm, 0, GONE] == 2
    if rule == LOST:
        assert outcome.evidence[told.arm, 0, ASKED] == 2


HEALED, NEEDED = 20_000, 10_000
"""When the last fault was healed, and what brokers may need where nobody saw them in sync."""
OVER = 12_000
"""Committed at 10 s for 2 s."""


def brief(*, looks_ms: int | None = 500) -> Story:
    told = Story()
    if looks_ms is not None:
        told.run["settings"] = {"overrides": {CHECK_INTERVAL: str(looks_ms)}}
    for t, phase in ((5_000, "inject"), (5_100, "injected"), (HEALED, "heal"), (HEALED, "healed")):
        told.add("fault", t, fault="kill", id="k", phase=phase, nodes=[1], detail="{}")
    step(told, 10_000, "commit", 7, keep_ms=2_000)
    step(told, 11_000, "ask", 7)
    return told


EXPIRIES = {
    "gone": (brief, lambda s: step(s, 31_000, "ask"), None),
    "kept": (brief, lambda s: step(s, 31_000, "ask", 7), STALE),
    "kept by another": (brief, lambda s: step(s, 31_000, "ask", 7, node=3), STALE),
    "who does not coordinate it": (
        brief,
        lambda s: step(s, 31_000, "ask", type="fail", error=16),
        None,
    ),
    "gone too soon": (brief, lambda s: step(s, OVER - 500, "ask"), LOST),
    "gone as it was to go": (brief, lambda s: step(s, OVER, "ask"), None),
    "before all is calm": (brief, lambda s: step(s, HEALED + NEEDED - 500, "ask", 7), None),
    "asked before": (brief, lambda s: step(s, 31_000, "ask", 7, invoke_t=29_000), None),
    "nobody looks so often": (
        lambda: brief(looks_ms=None),
        lambda s: step(s, 31_000, "ask", 7),
        None,
    ),
    "another commit may be late": (
        brief,
        lambda s: (
            step(s, 9_000, "commit", 7, type="info", error=7, keep_ms=2_000),
            step(s, 31_000, "ask", 7),
        ),
        None,
    ),
    "kept for ever": (
        brief,
        lambda s: (step(s, 10_000, "commit", 7, group="k"), step(s, 31_000, "ask", 7, group="k")),
        None,
    ),
}


EXPIRED_BACK = "expired-offset-back"


def led_anew(told: Story, t: float = 18_000, epoch: int = 1) -> None:
    """Node 1 had led it; from then on another (node 2 in leader epoch 1) does."""
    for partition in range(PARTITIONS):
        moved(told, 1_000, 0, partition=partition)
    moved(told, t, epoch)


def comes_back(told: Story, t: float = 18_500, **more: object) -> None:
    """Gone at 13 s, by node 1, and told of by node 2."""
    step(told, 13_000, "ask")
    step(told, t, "ask", 7, **{"node": 2, **more})


RETURNS = {
    "back": (lambda s: (led_anew(s), comes_back(s)), EXPIRED_BACK),
    "back for a moment, and gone": (
        lambda s: (led_anew(s), comes_back(s), step(s, 18_800, "ask", node=2)),
        EXPIRED_BACK,
    ),
    "gone": (lambda s: (led_anew(s), step(s, 13_000, "ask"), step(s, 18_500, "ask", node=2)), None),
    "told of before it was gone": (
        lambda s: (led_anew(s), comes_back(s, 12_900, node=1)),
        None,
    ),
    "asked before": (
        lambda s: (led_anew(s, 1_500), comes_back(s, 13_100, invoke_t=12_900)),
        None,
    ),
    "back with who had it no more": (lambda s: (led_anew(s), comes_back(s, node=1)), None),
    "back with who never had it": (lambda s: (led_anew(s), comes_back(s, node=3)), None),
    "back as yet another is to lead it": (
        lambda s: (led_anew(s), moved(s, 18_499.5, 2), comes_back(s)),
        None,
    ),
    "one of them leads": (
        lambda s: (led_anew(s), comes_back(s, node=3), step(s, 18_600, "ask", 7, node=2)),
        EXPIRED_BACK,
    ),
    "who had it died soon after": (
        lambda s: (led_anew(s), comes_back(s), ended(s, 16_500)),
        None,
    ),
    "who had it died later": (
        lambda s: (led_anew(s), comes_back(s), ended(s, 17_500)),
        EXPIRED_BACK,
    ),
    "who had it may have lost it as it went": (
        lambda s: (led_anew(s, 13_500), comes_back(s)),
        None,
    ),
    "another led it until just before": (
        lambda s: (
            led_anew(s, epoch=4),
            moved(s, 11_000, 2),
            moved(s, 12_500, 3),
            comes_back(s),
        ),
        EXPIRED_BACK,
    ),
    "another led it as it went": (
        lambda s: (led_anew(s, epoch=4), moved(s, 11_000, 2), comes_back(s)),
        None,
    ),
    "only who is in sync changed as it went": (
        lambda s: (led_anew(s, epoch=4), moved(s, 13_100, 3), comes_back(s)),
        EXPIRED_BACK,
    ),
    "where a coordinator that begins may tell of less": (
        lambda s: (
            s.run["arms"][s.arm].update(positions_told_late=True),
            led_anew(s),
            comes_back(s),
        ),
        None,
    ),
    "somebody may have deleted it": (
        lambda s: (
            led_anew(s),
            step(s, 12_500, "delete", type="info", error=7),
            comes_back(s),
        ),
        None,
    ),
    "another commit may be late": (
        lambda s: (
            step(s, 9_000, "commit", 7, type="info", error=7, keep_ms=2_000),
            led_anew(s),
            comes_back(s),
        ),
        None,
    ),
    "nobody knows who led it": (comes_back, None),
}


@pytest.mark.parametrize("name", RETURNS)
@judging(ruled(kept_groups))
def test_a_position_that_has_gone_with_its_time_does_not_come_back(name: str) -> Asks:
    tell, rule = RETURNS[name]
    told = brief()
    tell(told)
    outcome = yield told
    assert [f.rule for f in outcome.findings] == ([] if rule is None else [rule])
    if rule is not None:
        assert outcome.evidence[told.arm, 0, EXPIRED]


@pytest.mark.parametrize("name", EXPIRIES)
@judging(ruled(kept_groups))
def test_a_position_is_kept_for_as_long_as_was_asked(name: str) -> Asks:
    make, tell, rule = EXPIRIES[name]
    told = make()
    tell(told)
    outcome = yield told
    assert [f.rule for f in outcome.findings] == ([] if rule is None else [rule])
    if rule == STALE:
        assert outcome.evidence[told.arm, 0, EXPIRED] == 1


@judging(ruled(kept_groups))
def test_what_a_deletion_that_was_refused_late_excuses_is_counted() -> Asks:
    tell, _ = CASES["no such group to delete, as who lost it meanwhile said so late"]
    told = story()
    tell(told)
    found = yield told
    assert found.excused == {(told.arm, 0, LOST, "given-away", ASKED): 1}
