"""Folding: a row for each block of 64 numbers instead of one for each.

Most of a long history says the same thing several times over, and is as it should be: a record was
offered, is in every log, and was delivered. Holding each against each brings every row to one
place. Numbers that lie close together (offsets of a log, values of a producer) are folded where
they are read instead, to

    held    which numbers of the block there are, a bit for each
    n       how many rows: more than bits are set where a number came twice
    print   the rows' fingerprints, xor-ed. Equal sets of rows have equal ones; others once in 2^64

Folds that are alike stand for rows that are, and are counted as such; the rows of all other blocks
are looked at one by one. So what is clean costs little, and what is not is found as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from checkers.spark import local_frame

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_BITS: Final = 6
BLOCK: Final = 1 << _BITS
"""As many as a long has bits."""
FEW: Final = 10_000
"""So many blocks are brought to the driver, and sent to all workers, at most."""


def block_of(number: str) -> Column:
    from pyspark.sql import functions as F

    return F.expr(f"shiftright({number}, {_BITS})")


def bit_of(number: str) -> Column:
    from pyspark.sql import functions as F

    return F.expr(f"shiftleft(1L, int({number} & {BLOCK - 1}))")


def chosen(rows: DataFrame, blocks: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The rows of some blocks, or of whatever ``keys`` name. A few of these lie in the plan as a
    table: engines look all rows up in one that they know to be small, and move all rows about where
    they do not know."""
    from pyspark.sql import functions as F

    wanted = blocks.select(*keys)
    some = wanted.limit(FEW + 1).toArrow()
    if not some.num_rows:
        return rows.where(F.lit(False))
    if some.num_rows <= FEW:
        wanted = F.broadcast(local_frame(rows.sparkSession, some))
    return rows.join(wanted, list(keys), "left_semi")


def unlike(
    frames: Sequence[DataFrame], blocks: DataFrame, keys: Sequence[str], number: str
) -> list[DataFrame]:
    """Of rows those whose block (``keys``, the last one of ``number``) is not ``alike``."""
    strange = blocks.where("not alike")
    own = [rows.withColumn(keys[-1], block_of(number)) for rows in frames]
    return [chosen(rows, strange, keys) for rows in own]
