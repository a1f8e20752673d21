"""Numbers that brokers tell: any that a long holds, and nobody trips over them.

Spark's arithmetic fails where a result does not fit (ANSI), so that a check of ours that counts
beyond it is `unknown` and not silently wrong. What a broker told is no reason to judge nothing: it
is taken for as much, or as far away, as can be said.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

_NS_PER_MS: Final = 1_000_000
FURTHEST_MS: Final = 2**61 // _NS_PER_MS
"""A later time in ms has none in ns, with room for what is added to it."""
_MOST: Final = 2**63 - 1


def monotonic_ns(wall_ms: Column, offset_ns: int) -> Column:
    """``wall_ms`` of a broker's wall clock in ns of the clock that all go by; ``offset_ns``: that
    one less the wall clock."""
    shown = F.greatest(F.least(wall_ms, F.lit(FURTHEST_MS)), F.lit(-FURTHEST_MS))
    return F.when(wall_ms.isNotNull(), shown * _NS_PER_MS + F.lit(offset_ns))


def total(counted: str) -> Column:
    """The sum of a column of counts."""
    return F.coalesce(F.try_sum(counted), F.lit(_MOST))
