"""When a row really happened: its times, widened by their own error.

Rows that were read off the monotonic clock are exact (``error_ns`` null). Rows made from a system's
log files carry the error of that conversion. A check that orders two such times takes the far end
of one and the near end of the other, so that only what is certain counts as evidence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column

ERROR: Final = "error_ns"


def error(column: str = ERROR) -> Column:
    """A row's error in ns, 0 when it is exact."""
    from pyspark.sql import functions as F

    return F.coalesce(F.col(column), F.lit(0))


def earliest(t: Column) -> Column:
    """The first moment (ns) that ``t``, a time of a row with its ``error_ns``, can mean."""
    return t - error()


def latest(t: Column) -> Column:
    """The last moment (ns) that it can mean."""
    return t + error()
