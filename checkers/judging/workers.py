"""Rows judged by Spark's workers, where they are: each task hands back one object.

By way of Arrow (`DataFrame.mapInArrow`), which a client of Spark Connect has, too. The function
goes to the workers with what it holds: plain data, and no frame. They need this package, which
`checkers.spark` ships, the driver's version of Python, and pyarrow.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from checkers import sail

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

T = TypeVar("T")
_AT_ONCE: Final = 10_000
"""So many rows are Python's at a time."""
Row = Mapping[str, Any]


def on_workers(frame: DataFrame, judge: Callable[[Iterator[Row]], T]) -> list[T]:
    """What ``judge`` gives of each partition's rows, in their order."""

    if sail.answers(frame.sparkSession):  # it runs nobody's Python
        rows = (row for batch in frame.toArrow().to_batches(_AT_ONCE) for row in batch.to_pylist())
        return [judge(rows)]

    def each(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        rows = (row for batch in batches for row in batch.to_pylist())
        yield pa.RecordBatch.from_pydict({"judged": [pickle.dumps(judge(rows))]})

    parts = frame.mapInArrow(each, "judged binary").toArrow()
    return [pickle.loads(part) for part in parts["judged"].to_pylist()]
