"""Who is to blame for a wait."""

from __future__ import annotations

import threading
import time

import pytest

from tests.integration.stalls import Ruler, Span, kept_waiting_s


@pytest.mark.parametrize(
    ("overslept", "kept_s"),
    [
        ([], 2.0),
        ([Span(10.5, 12.0)], 0.5),
        ([Span(10.2, 10.4), Span(11.0, 11.3)], 1.5),
        ([Span(9.0, 10.5)], 1.5),
        ([Span(5.0, 9.9), Span(12.1, 20.0)], 2.0),
        ([Span(9.0, 13.0)], 0.0),
    ],
)
def test_only_what_the_machine_lost_meanwhile_is_taken_off(
    overslept: list[Span], kept_s: float
) -> None:
    assert kept_waiting_s(Span(10.0, 12.0), overslept) == pytest.approx(kept_s)


class Late(threading.Event):
    """Wakes whoever waits a fifth of a second late, three times; then it is set."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = 0

    def wait(self, timeout: float | None = None) -> bool:
        time.sleep((timeout or 0.0) + 0.2)
        self.waits += 1
        return self.waits > 3


def test_a_ruler_notes_when_it_could_not_run() -> None:
    ruler = Ruler()
    ruler._stopping = Late()
    ruler.run()
    assert len(ruler.overslept) == 3
    assert all(span.end_s - span.start_s >= 0.2 for span in ruler.overslept)
