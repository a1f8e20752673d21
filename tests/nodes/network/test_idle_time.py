"""A wait counts while it lasts."""

from __future__ import annotations

from nodes.network.idle_time import IdleTime


def test_the_present_wait_counts() -> None:
    idle = IdleTime()
    assert idle.total_ns(50) == 0
    idle.begin(100)
    assert idle.total_ns(130) == 30
    idle.end(150)
    assert idle.total_ns(1000) == 50, "busy since"
    idle.begin(1000)
    assert idle.total_ns(1007) == 57
    assert idle.total_ns(999) == 50, "a reader whose clock was read before the wait began"
