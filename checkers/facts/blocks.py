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

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_BITS: Final = 6
BLOCK: Final = 1 << _BITS
"""As many as a long has bits."""
FEW: Final = 200_000
"""So many blocks are sent to all workers at most."""


def block_of(number: str) -> Column:
    from pyspark.sql import functions as F

    return F.expr(f"shiftright({number}, {_BITS})")


def bit_of(number: str) -> Column:
    from pyspark.sql import functions as F

    return F.expr(f"shiftleft(1L, int({number} & {BLOCK - 1}))")


def chosen(rows: DataFrame, blocks: DataFrame, n: int, keys: Sequence[str]) -> DataFrame:
    """The rows of ``n`` blocks, by ``keys``."""
    from pyspark.sql import functions as F

    if not n:
        return rows.where(F.lit(False))
    wanted = blocks.select(*keys)
    return rows.join(F.broadcast(wanted) if n <= FEW else wanted, list(keys), "left_semi")


def unlike(
    frames: Sequence[DataFrame], blocks: DataFrame, keys: Sequence[str], number: str
) -> list[DataFrame]:
    """Of rows those whose block (``keys``, the last one of ``number``) is not ``alike``."""
    strange = blocks.where("not alike")
    n = strange.count()
    own = [rows.withColumn(keys[-1], block_of(number)) for rows in frames]
    return [chosen(rows, strange, n, keys) for rows in own]
