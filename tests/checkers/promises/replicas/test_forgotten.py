"""Who began anew without a high watermark, and had one to begin with."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from checkers.history.frames import History
from checkers.judging.outcome import Outcome
from checkers.promises.replicas.forgotten import BEGUN, forgotten
from tests.checkers.conftest import ARM, Story
from tests.checkers.together import said_of_each

LOG = {"node": 2, "process": "node-2"}


def role(story: Story, t: float, boot: int, mark: int | None, **more: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "role": "follower",
        "leader": 3,
        "leader_epoch": boot,
        "log_end_offset": 20,
    }
    fields |= {"boot": boot, "high_watermark": mark}
    return story.add("leader_change", t, **{**LOG, **fields, **more})


def ended(story: Story, *events: tuple[float, str], graceful: bool = True) -> None:
    story.rows["node_event"] = []
    for t, event in events:
        detail = json.dumps({"graceful": graceful} if event == "stopped" else {})
        story.add("node_event", t, node=2, event=event, detail=detail)


def stopped() -> Story:
    """Broker 2 began with nothing, led with 10 committed, was stopped in order, and has 12 now."""
    story = Story()
    for kind in ("leader_change", "replica_stop", "truncation"):
        story.rows[kind] = []
    role(story, 500, 1, 0, log_end_offset=0)
    role(story, 1_000, 1, 10, role="leader", leader=2)
    ended(story, (2_000, "stop"), (2_500, "stopped"), (3_000, "start"))
    role(story, 4_000, 2, 12)
    return story


def last(story: Story) -> dict[str, Any]:
    row: dict[str, Any] = story.rows["leader_change"][-1]
    return row


def forgot(story: Story, **more: Any) -> None:
    last(story).update(high_watermark=0, **more)


def killed(story: Story, at: float) -> None:
    ended(story, (at, "kill"), (at + 500, "start"))
    last(story)["t"] = int((at + 1_000) * 1_000_000)
    forgot(story)


def again(story: Story) -> None:
    """Its second life is stopped as well, and tells of nothing, but has begun with what it had."""
    ended(story, (2_500, "stopped"), (3_000, "start"), (5_000, "stopped"), (5_500, "start"))
    role(story, 6_000, 3, 0)


def short(story: Story) -> None:
    """Killed soon after it had begun, with what it had; and it begins with nothing."""
    ended(story, (2_500, "stopped"), (3_000, "start"), (5_000, "kill"), (5_500, "start"))
    role(story, 6_000, 3, 0)


def cut(story: Story, to: int) -> None:
    fields = {"boot": 1, "seq": 7, "leader_epoch": 3, "from_offset": 20, "to_offset": to}
    story.add("truncation", 2_100, **{**LOG, **fields, "reason": "diverging epoch"})
    forgot(story)


def replica_stop(story: Story, *, delete: bool) -> None:
    story.add("replica_stop", 2_100, boot=1, delete=delete, **LOG)
    forgot(story)


BROKEN: dict[str, Callable[[Story], Any]] = {
    "stopped in order": forgot,
    "as leader": lambda s: forgot(s, role="leader", leader=2),
    "stopped without deletion": lambda s: replica_stop(s, delete=False),
    "cut, and not to nothing": lambda s: cut(s, 5),
    "killed long after": lambda s: killed(s, 16_500),
    "in its third life": again,
}
LAWFUL: dict[str, Callable[[Story], Any]] = {
    "it goes on": lambda s: None,
    "with less": lambda s: last(s).update(high_watermark=3),
    "killed soon after": lambda s: killed(s, 15_500),
    "killed soon after it had begun": short,
    "deleted": lambda s: replica_stop(s, delete=True),
    "cut to nothing": lambda s: cut(s, 0),
    "its disk was lost": lambda s: forgot(s, log_end_offset=0),
    "in the same life": lambda s: forgot(s, boot=1),
    "nothing had been committed": lambda s: (
        [row.update(high_watermark=0) for row in s.rows["leader_change"]]
    ),
    "of another partition": lambda s: forgot(s, partition=1),
    "it never says": lambda s: last(s).update(high_watermark=None),
    "it took too long to stop": lambda s: (
        ended(s, (2_500, "stopped"), (3_000, "start"), graceful=False),
        forgot(s),
    ),
    "nobody knows how it ended": lambda s: (ended(s, (3_000, "start")), forgot(s)),
}


def produced(story: Story, t: float, offset: int, acks: int = -1, **more: Any) -> None:
    fields = {"value": offset, "acks": acks, "offset": offset, "error": None}
    story.add("produce", t, **{**fields, "invoke_t": t - 10, **more})


def followed(
    story: Story,
    *,
    acked: tuple[float, int] = (2_100, -1),
    sent: tuple[float, int] = (2_300, 15),
    elected: float = 0,
    how: str = "stopped",
) -> None:
    """It tells of nothing in its first life, and has a record that was sent after another one had
    been acknowledged with acks=all; and begins with nothing."""
    story.rows["leader_change"], story.rows["leadership"] = [], []
    story.commit(0, 3, 0)
    if elected:
        story.commit(elected, 3, 1)
    role(story, 500, 1, 0, log_end_offset=0)
    ended(story, (2_500, how), (3_000, "start"))
    role(story, 4_000, 2, 0)
    produced(story, acked[0], 3, acked[1])
    produced(story, *sent, acks=1)


BROKEN |= {
    "it had a record that tells": followed,
    "elected long before that": lambda s: followed(s, elected=1_000),
}
LAWFUL |= {
    "it lacks that record": lambda s: followed(s, sent=(2_300, 20)),
    "sent before the other was acknowledged": lambda s: followed(s, sent=(2_105, 15)),
    "the other was acknowledged by its leader alone": lambda s: followed(s, acked=(2_100, 1)),
    "another was elected between them": lambda s: followed(s, elected=2_200),
    "another was elected just before": lambda s: followed(s, elected=1_900),
    "acknowledged before that life": lambda s: followed(s, acked=(400, -1)),
    "once it was stopped": lambda s: followed(s, sent=(2_600, 15)),
    "it was killed": lambda s: followed(s, how="kill"),
}


@pytest.fixture(scope="module")
def told(spark: Any) -> dict[str, list[str]]:
    def says(rows: dict[str, list[dict[str, Any]]]) -> Any:
        for found in forgotten(History.of(spark, rows, stopped().run), Outcome()):
            assert found.finding.rule == "high-watermark-forgotten"
            yield (ARM, found.finding.trial), found.finding.says

    return said_of_each({**BROKEN, **LAWFUL}, stopped, says)


@pytest.mark.parametrize("why", [*BROKEN, *LAWFUL])
def test_watermarks(told: dict[str, list[str]], why: str) -> None:
    assert len(told.get(why, [])) == (why in BROKEN)


def test_what_was_looked_at(spark: Any) -> None:
    outcome, story = Outcome(), stopped()
    assert not list(forgotten(story.history(spark), outcome))
    assert outcome.evidence[ARM, 0, BEGUN] == 1


@pytest.mark.parametrize(("interval_ms", "forgets"), [(5_000, 1), (300_000, 0)])
def test_it_is_written_down_as_often_as_brokers_are_set_to(
    spark: Any, interval_ms: int, forgets: int
) -> None:
    story, setting = stopped(), "replica.high.watermark.checkpoint.interval.ms"
    killed(story, 20_000)
    story.run["expectations"] = {"overrides": {setting: str(interval_ms)}}
    assert len(list(forgotten(story.history(spark), Outcome()))) == forgets
