"""A run's evidence: what its rows say, and how they are read.

    schema      what one row of evidence says; the only home of it
    problems    what is wrong with a row
    run_info    run.json: what was asked
    parts       the stored files, and Arrow's way to read them
    writer      writing them, whole or not at all
    frames      a stored history as typed Spark frames, one a kind
    store       where it lies: a folder, or any URI that Hadoop can read

Importing this package is cheap: neither Spark nor Arrow comes with it.
"""

from checkers.history.problems import problem_with
from checkers.history.schema import (
    COMMON,
    KINDS,
    OPERATIONS,
    PARTITION_COLUMNS,
    VERSION,
    HistoryError,
    Kind,
    arrow_schema,
    arrow_type,
    spark_ddl,
)

__all__ = [
    "COMMON",
    "KINDS",
    "OPERATIONS",
    "PARTITION_COLUMNS",
    "VERSION",
    "HistoryError",
    "Kind",
    "arrow_schema",
    "arrow_type",
    "problem_with",
    "spark_ddl",
]
