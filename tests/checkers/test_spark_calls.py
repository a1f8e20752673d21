"""What Python says to Spark's JVM: each call takes its time, however little it does."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import functions as F

from checkers.history.frames import History


@pytest.fixture(scope="module")
def spark(spark_itself: Any) -> Any:
    return spark_itself


def test_a_column_asks_for_nothing_that_is_known(
    spark: Any, story: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither whether there is such a function, nor where in Python it was called."""
    story.produce(1, 1, 0)
    frame = History.of(spark, story.rows, story.run).frame("produce")

    def asked() -> None:
        late = F.coalesce(F.col("t") - F.col("invoke_t"), F.lit(0)) > 5
        frame.where(late & F.col("topic").isin("a", "b")).select(F.upper("topic").alias("x"))

    asked()
    client = spark.sparkContext._gateway._gateway_client
    real, commands = client.send_command, []

    def send(command: str, *args: Any, **kwargs: Any) -> Any:
        commands.append(command.partition("\n")[0])
        return real(command, *args, **kwargs)

    monkeypatch.setattr(client, "send_command", send)
    asked()
    assert commands.count("c") >= 10  # calls; "m" gives objects back
    assert "r" not in commands
