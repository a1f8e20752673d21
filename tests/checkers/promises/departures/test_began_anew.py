"""Who began anew: decided about again, or not, and each way in which that may be lawful."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from checkers.promises.departures import check
from checkers.promises.departures.began_anew import ANEW
from tests.checkers.conftest import ARM
from tests.checkers.promises.test_departures import Zoo
from tests.checkers.together import judged_apart


def bounced(t: float = 1000) -> Zoo:
    """Broker 1, which leads t-0, ends and begins anew, and broker 3 decides nothing."""
    story = Zoo()
    story.gone(t, 1)
    story.broker(t + 500, 1)
    return story


def led_on() -> Zoo:
    return bounced()


def another_leads() -> Zoo:
    story = bounced()
    story.state(2000, 2, [2, 3], leader_epoch=2, partition_epoch=2)
    return story


def it_leads_again() -> Zoo:
    story = bounced()
    story.state(1600, -1, [1], leader_epoch=2, partition_epoch=2)
    story.state(1700, 1, [1], leader_epoch=3, partition_epoch=3)
    return story


def only_its_set_changed() -> Zoo:
    story = bounced()
    story.state(2000, 1, [1, 2], partition_epoch=2)
    return story


def handed_over_before() -> Zoo:
    story = Zoo()
    story.state(900, 2, [2, 3], leader_epoch=2, partition_epoch=2)
    story.gone(1000, 1)
    story.broker(1500, 1)
    return story


def decided_late() -> Zoo:
    story = bounced()
    story.state(7000, 2, [2, 3], leader_epoch=2, partition_epoch=2)
    return story


def another_took_office() -> Zoo:
    """Who knows of no registration before."""
    story = bounced()
    story.write(1600, "controller", "removed", node=3)
    story.write(1700, "controller", "created", node=2)
    return story


def the_controller_was_stopped() -> Zoo:
    story = Zoo()
    story.add("node_event", 900, node=3, event="pause")
    story.gone(1000, 1)
    story.broker(1500, 1)
    story.add("node_event", 8000, node=3, event="resume")
    story.state(8100, 2, [2, 3], leader_epoch=2, partition_epoch=2)
    return story


def and_went_on_without_a_word() -> Zoo:
    story = Zoo()
    story.add("node_event", 900, node=3, event="pause")
    story.gone(1000, 1)
    story.broker(1500, 1)
    story.add("node_event", 3000, node=3, event="resume")
    return story


def a_fault_is_in_place() -> Zoo:
    story = bounced()
    story.fault(900, 30_000, 3)
    story.state(29_000, 2, [2, 3], leader_epoch=2, partition_epoch=2)
    return story


def the_topic_was_to_go() -> Zoo:
    story = Zoo()
    story.add("topic_deletion", 900, topic="t", step="requested")
    story.gone(1000, 1)
    story.broker(1500, 1)
    return story


def at_the_very_end() -> Zoo:
    return bounced(58_000)


def succeeded(decides: float) -> Zoo:
    """Another controller takes office, and then broker 1 registers anew."""
    story = Zoo()
    story.write(900, "controller", "removed", node=3)
    story.write(1000, "controller", "created", node=2)
    story.gone(1100, 1)
    story.broker(1500, 1)
    story.state(decides, 2, [2, 3], leader_epoch=2, partition_epoch=2)
    return story


def who_is_new_in_office_decides_later() -> Zoo:
    return succeeded(10_900)


def who_is_new_in_office_decides_too_late() -> Zoo:
    return succeeded(11_100)


STORIES: list[tuple[Callable[[], Zoo], bool, int]] = [
    (led_on, True, 1),
    (another_leads, False, 1),
    (it_leads_again, False, 1),
    (only_its_set_changed, True, 1),
    (handed_over_before, False, 0),
    (decided_late, True, 1),
    (another_took_office, False, 0),
    (who_is_new_in_office_decides_later, False, 1),
    (who_is_new_in_office_decides_too_late, True, 1),
    (the_controller_was_stopped, False, 1),
    (and_went_on_without_a_word, True, 1),
    (a_fault_is_in_place, False, 1),
    (the_topic_was_to_go, False, 0),
    (at_the_very_end, False, 0),
]


def test_who_began_anew_is_decided_about_again(spark: Any) -> None:
    stories = {make.__name__: make() for make, _, _ in STORIES}
    found = judged_apart(spark, check, stories)
    for make, wrong, seen in STORIES:
        outcome = found[make.__name__]
        assert ("led-on" in outcome.counts) is wrong, make.__name__
        assert outcome.evidence[ARM, 0, ANEW] == seen, make.__name__
