"""units: three digits, the right unit, never a false zero."""

from __future__ import annotations

import pytest

from harness.report import units


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (None, "-"),
        (float("nan"), "-"),
        (0, "0 ms"),
        (0.0234, "23.4 us"),
        (0.9996, "1 ms"),
        (4.0602, "4.06 ms"),
        (213.8, "214 ms"),
        (999.7, "1 s"),
        (1596.3, "1.6 s"),
        (7_200_000, "120 min"),
    ],
)
def test_milliseconds(value: float | None, says: str) -> None:
    assert units.ms(value, ascii_only=True) == says


def test_a_page_holds_number_and_unit_together() -> None:
    assert units.ms(4.06) == "4.06\N{NO-BREAK SPACE}ms"
    assert units.ms(None) == "\N{EN DASH}"


@pytest.mark.parametrize(
    ("value", "says"),
    [(576.2, "576x"), (4.177, "4.2x"), (1.0, "1.0x"), (0.75, "0.75x"), (None, "-")],
)
def test_times(value: float | None, says: str) -> None:
    assert units.times(value, ascii_only=True) == says


def test_shares_and_counts() -> None:
    assert units.share(0.0389, ascii_only=True) == "3.89 %"
    assert units.share(0.00001, ascii_only=True) == "< 0.01 %"
    assert units.share(0, ascii_only=True) == "0 %"
    assert units.count(4800) == "4,800"
    assert units.words(1, "record") == "1 record"
    assert units.words(2, "record") == "2 records"
    assert units.listed(["a", "b", "c"]) == "a, b and c"
    assert units.listed([]) == ""
