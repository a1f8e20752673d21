"""How numbers are written for people: three significant digits, the unit last, never a false zero.

Everything takes None (not measured) and answers a dash for it. ``ascii_only`` is for terminals;
else a number and its unit are held together, so that no line breaks between them.
"""

from __future__ import annotations

import math
from typing import Final

NOT_MEASURED: Final = "\N{EN DASH}"
NO_BREAK: Final = "\N{NO-BREAK SPACE}"


def ms(value: float | None, *, ascii_only: bool = False) -> str:
    """A duration given in milliseconds, in the unit that suits it: 23 µs, 4.06 ms, 1.57 s."""
    if value is None or not math.isfinite(value):
        return _nothing(ascii_only)
    size = abs(value)
    if size == 0:
        return _with_unit("0", "ms", ascii_only)
    if size < 0.9995:
        return _with_unit(_three(value * 1000), "us" if ascii_only else "µs", ascii_only)
    if size < 999.5:
        return _with_unit(_three(value), "ms", ascii_only)
    if size < 119_500:
        return _with_unit(_three(value / 1000), "s", ascii_only)
    return _with_unit(_three(value / 60_000), "min", ascii_only)


def count(value: float | None, *, ascii_only: bool = False) -> str:
    """A number of things, its thousands set apart."""
    if value is None or not math.isfinite(value):
        return _nothing(ascii_only)
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"


def share(value: float | None, *, ascii_only: bool = False) -> str:
    """A share of one, as a percentage."""
    if value is None or not math.isfinite(value):
        return _nothing(ascii_only)
    if value == 0:
        return _with_unit("0", "%", ascii_only)
    return _with_unit(_three(value * 100) if value >= 0.0001 else "< 0.01", "%", ascii_only)


def times(ratio: float | None, *, ascii_only: bool = False) -> str:
    """How many times: 576x, 4.2x, 0.75x."""
    if ratio is None or not math.isfinite(ratio):
        return _nothing(ascii_only)
    sign = "x" if ascii_only else "\N{MULTIPLICATION SIGN}"
    if ratio >= 9.95:
        return f"{ratio:,.0f}{sign}"
    return f"{ratio:.1f}{sign}" if ratio >= 0.95 else f"{ratio:.2g}{sign}"


def words(number: int, one: str, many: str | None = None) -> str:
    """1 record, 2 records."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def listed(names: list[str]) -> str:
    """a, b and c."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _nothing(ascii_only: bool) -> str:
    return "-" if ascii_only else NOT_MEASURED


def _with_unit(number: str, unit: str, ascii_only: bool) -> str:
    return f"{number}{' ' if ascii_only else NO_BREAK}{unit}"


def _three(value: float) -> str:
    size = abs(value)
    digits = 0 if size >= 99.95 else 1 if size >= 9.995 else 2
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
