"""A story that grows in a run's live files, and is looked at on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from checkers.history.run_info import RunInfo
from checkers.live.accusation import Accusation
from checkers.live.intake import HOLD_NS
from checkers.live.tail import live_trials
from checkers.live.watch import Watch
from tests.checkers.conftest import MS, Story

_NODES: Final = frozenset({"control_request", "leader_change", "replica_stop", "metadata_update"})
_CLIENTS: Final = frozenset({"metadata", "produce", "fetch", "probe", "assignment"})
END_MS: Final = 100_000
_BROKERS: Final = 100


@pytest.fixture(scope="module")
def spark(spark_itself: Any) -> Any:
    return spark_itself


class Growing:
    """Stories, each a trial, in the files of one run."""

    def __init__(
        self, spark: Any, folder: Path, stories: Sequence[Story], *, unclean: bool = False
    ) -> None:
        self.folder, self.clock_ms = folder, 0.0
        self._left: list[tuple[Path, dict[str, Any]]] = []
        for number, story in enumerate(stories):
            home = folder / "trials" / f"{story.arm}-{number}"
            (home / "live").mkdir(parents=True)
            for kind, rows in story.rows.items():
                for row in rows:
                    told = {"f": kind, **row}
                    del told["arm"], told["trial"]
                    self._left.append((_file(home, told), told))
        self._left.sort(key=lambda one: one[1]["t"])
        run = RunInfo.from_dict(stories[0].run)
        self.watch = Watch(spark, run, lambda: int(self.clock_ms * MS), unclean=unclean)

    def write(self, to_ms: float) -> None:
        """What had been written by then."""
        while self._left and self._left[0][1]["t"] <= to_ms * MS:
            path, row = self._left.pop(0)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                file.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))

    def look(self, at_ms: float, *, last: bool = False) -> list[Accusation]:
        """Write up to that moment, and look."""
        self.write(at_ms)
        self.clock_ms = at_ms
        return list(self.watch.look(live_trials(self.folder), last=last))


def _file(home: Path, row: dict[str, Any]) -> Path:
    if row["f"] in _NODES:
        return home / f"node-{row['node']}" / "trace.jsonl"
    name = row["process"] if row["f"] in _CLIENTS else "harness"
    return home / "live" / f"{name}.jsonl"


def found(
    spark: Any,
    folder: Path,
    stories: Sequence[Story],
    looks_ms: Sequence[float] = (END_MS,),
    apart: Sequence[int] = (),
) -> list[set[str]]:
    """By story, the rules that were told of as broken. The stories are one trial, each with brokers
    and topics of its own; those that are to be ``apart`` are trials of their own, for what is in
    them counts for all of a trial."""
    numbers = [n for n in range(len(stories)) if n not in apart]
    whole = Story()
    for n in numbers:
        for kind, rows in stories[n].rows.items():
            whole.rows.setdefault(kind, []).extend(_renamed(row, n) for row in rows)
    growing = Growing(spark, folder, [whole, *(stories[n] for n in apart)])
    told = [one for at_ms in looks_ms for one in growing.look(at_ms)]
    told += growing.look(END_MS + HOLD_NS / MS + 1)
    rules: list[set[str]] = [set() for _ in stories]
    for one in told:
        of = apart[one.trial - 1] if one.trial else _whose(one)
        rules[of].add(one.rule)
    return rules


def _renamed(row: Mapping[str, Any], number: int) -> dict[str, Any]:
    """The same at other brokers, of another topic, by other clients."""
    told = dict(row)
    for name in ("node", "leader"):
        if (told.get(name) or -1) >= 0:
            told[name] += _BROKERS * number
    if told.get("isr") is not None:
        told["isr"] = [node + _BROKERS * number for node in told["isr"]]
    for name in ("topic", "process", "id"):
        if told.get(name) is not None:
            told[name] = f"{told[name]}.{number}"
    if told.get("partitions"):
        told["partitions"] = [_renamed(part, number) for part in told["partitions"]]
    if told.get("fault") and told.get("detail"):
        told["detail"] = told["detail"].replace('"t-', f'"t.{number}-')
    return told


def _whose(one: Accusation) -> int:
    """The story that it is of, by what was renamed."""
    topics = [part for part in one.place if isinstance(part, str) and part.startswith("t.")]
    return int(topics[0][2:]) if topics else int(one.place[0]) // _BROKERS
