"""What a fault did is undone, whatever happens on the way and wherever it stopped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from faults.base import BaseFault
from faults.protocol import Context, Link


def playing(entry: Any, *acts: Callable[[BaseFault, Context], None]) -> BaseFault:
    class Story(BaseFault):
        name = "story"

        def apply(self, ctx: Context) -> None:
            for act in acts:
                act(self, ctx)

    return Story(entry("story"))


def test_links_and_the_paused_come_back_before_who_is_down(
    ctx: Any, entry: Any, cluster: Any
) -> None:
    fault = playing(
        entry,
        lambda f, c: f.cut(c, 1, Link.CONTROL),
        lambda f, c: f.kill(c, 2),
        lambda f, c: f.pause(c, 3),
        lambda f, c: f.hold_answers(c, 1, Link.CLIENT),
        lambda f, c: f.stop(c, 1),
    )
    fault.inject(ctx)
    cluster.calls.clear()
    fault.heal(ctx)
    assert cluster.calls == [
        ("remove_toxic", 1, Link.CLIENT, "e1"),
        ("resume", 3),
        ("enable", 1, Link.CONTROL),
        ("start", 1),
        ("start", 2),
    ]
    fault.heal(ctx)
    assert len(cluster.calls) == 5, "once is enough"


@pytest.mark.parametrize(
    ("does", "transport", "undone"),
    [
        (lambda f, c: f.kill(c, 2), "kill", ("start", 2)),
        (lambda f, c: f.stop(c, 2), "stop", ("start", 2)),
        (lambda f, c: f.pause(c, 2), "pause", ("resume", 2)),
        (lambda f, c: f.cut(c, 2, Link.CONTROL), "disable", ("enable", 2, Link.CONTROL)),
        (
            lambda f, c: f.delay_answers(c, 2, Link.CONTROL, 9),
            "add_toxic",
            ("remove_toxic", 2, Link.CONTROL, "e1"),
        ),
    ],
)
def test_what_was_begun_and_failed_is_undone_too(
    ctx: Any, entry: Any, cluster: Any, monkeypatch: pytest.MonkeyPatch,
    does: Any, transport: str, undone: tuple[Any, ...],
) -> None:  # fmt: skip
    """Nobody knows how far it came: a kill whose answer is lost has killed."""
    real = getattr(cluster, transport)

    def half(*args: Any, **kwargs: Any) -> None:
        real(*args, **kwargs)
        raise OSError("lost")

    monkeypatch.setattr(cluster, transport, half)
    fault = playing(entry, does)
    with pytest.raises(OSError, match="lost"):
        fault.inject(ctx)
    fault.heal(ctx)
    assert cluster.calls[-1] == undone


def test_a_heal_that_failed_goes_on_where_it_stopped(
    ctx: Any, entry: Any, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = playing(entry, lambda f, c: f.kill(c, 2), lambda f, c: f.pause(c, 3))
    fault.inject(ctx)

    def refuse(node: int) -> None:
        raise OSError("not now")

    with monkeypatch.context() as broken:
        broken.setattr(cluster, "resume", refuse)
        with pytest.raises(OSError, match="not now"):
            fault.heal(ctx)
    assert not cluster.running[2]
    fault.heal(ctx)
    assert cluster.running[2]
    assert not cluster.paused


def test_what_the_fault_undid_itself_is_not_undone_again(
    ctx: Any, entry: Any, cluster: Any
) -> None:
    fault = playing(
        entry,
        lambda f, c: f.pause(c, 2),
        lambda f, c: f.pause(c, 2),
        lambda f, c: f.resume(c, 2),
        lambda f, c: f.resume(c, 2),
        lambda f, c: f.cut(c, 2, Link.CONTROL),
        lambda f, c: f.cut(c, 2, Link.CONTROL),
        lambda f, c: f.mend(c, 2, Link.CONTROL),
        lambda f, c: f.kill(c, 2),
        lambda f, c: c.nodes.start(2),
    )
    fault.inject(ctx)
    fault.heal(ctx)
    assert [call[0] for call in cluster.calls] == [
        *("pause", "resume", "disable", "enable"),
        *("kill", "start"),
    ]
