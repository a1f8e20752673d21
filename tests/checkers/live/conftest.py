"""A story that grows in a run's live files, and is looked at on the way."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from checkers.history.run_info import RunInfo
from checkers.live.accusation import Accusation
from checkers.live.intake import HOLD_NS
from checkers.live.tail import live_trials
from checkers.live.watch import Watch
from tests.checkers.conftest import MS, Story

_NODES: Final = frozenset({"control_request", "leader_change", "replica_stop", "metadata_update"})
_CLIENTS: Final = frozenset({"metadata", "produce", "fetch", "probe", "assignment"})
END_MS: Final = 100_000


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
    spark: Any, folder: Path, stories: Sequence[Story], looks_ms: Sequence[float] = (END_MS,)
) -> list[set[str]]:
    """By story, the rules that were told of as broken."""
    growing = Growing(spark, folder, stories)
    told = [one for at_ms in looks_ms for one in growing.look(at_ms)]
    told += growing.look(END_MS + HOLD_NS / MS + 1)
    return [{one.rule for one in told if one.trial == n} for n in range(len(stories))]
