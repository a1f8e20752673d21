"""What a broker's code trips over is told, whoever survives it."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checkers.history import problem_with
from nodes.exceptions import tell_exceptions
from nodes.trace import Trace

log = logging.getLogger("kafka.server.Something")


class Told:
    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def rows(self) -> list[dict[str, Any]]:
        rows = [json.loads(line) for line in self._path.read_text().splitlines()]
        assert [problem_with(row) for row in rows] == [None] * len(rows)
        return rows


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Told]:
    trace = Trace(tmp_path / "trace.jsonl", 3, 2)
    end = tell_exceptions(trace)
    yield Told(tmp_path / "trace.jsonl")
    end()
    trace.close()


def trip() -> None:
    log.nothing()  # type: ignore[attr-defined]


def test_what_is_logged_with_its_traceback_is_told_once_a_place(told: Told) -> None:
    for _ in range(3):
        try:
            trip()
        except AttributeError:
            log.exception("it goes on")
    (row,) = told.rows
    assert (row["f"], row["error"]) == ("exception", "builtins.AttributeError")
    assert row["place"].startswith("test_exceptions.py:")
    assert row["place"].endswith(" trip")
    assert row["logger"] == log.name
    assert "nothing" in row["says"]


def test_what_is_logged_by_its_words_alone_is_told_as_well(told: Told) -> None:
    try:
        raise KeyError("k")
    except KeyError as error:
        log.warning("will be retried: %s", error)
    log.warning("%s is late by %d", "somebody", 3)
    log.error("no exception")
    assert [row["error"] for row in told.rows] == ["builtins.KeyError"]


def test_what_ends_a_thread_is_told(told: Told, capfd: pytest.CaptureFixture[str]) -> None:
    thread = threading.Thread(target=trip)
    thread.start()
    thread.join()
    (row,) = told.rows
    assert (row["error"], row["logger"]) == (
        "builtins.AttributeError",
        "org.apache.kafka.common.utils.KafkaThread",
    )


def test_what_the_trace_says_of_its_own_losses_is_left_to_it(told: Told) -> None:
    logging.getLogger("kafka.server.Trace").error("lost: %s", OSError(28, "full"))
    assert told.rows == []
