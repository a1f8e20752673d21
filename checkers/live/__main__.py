"""``python -m checkers.live RUN``: what is certain of a run while it goes on, into its live.jsonl.

It looks every few seconds, at low priority and with one thread, until its standard input closes
(which it does too when whoever started it dies); then once more at what is left, and ends.
"""

from __future__ import annotations

import argparse
import os
import resource
import select
import sys
import time
from pathlib import Path
from typing import Any, Final

import orjson

from checkers.history.run_info import RunInfo
from checkers.live import LIVE_FILE
from checkers.live.tail import live_trials
from checkers.live.watch import UNCLEAN, Watch, exercise
from checkers.spark import end, session, tuned

_NICE: Final = 5
"""As whoever judges beside a run: a broker that waits for a processor is a broker that is late."""
_MEMORY: Final = "512m"
_LAST_LOOKS: Final = 20
"""So often it goes on, where a look leaves something unread."""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("run", type=Path, help="a run's folder")
    options.add_argument("--every", type=float, default=2.0, help="seconds between looks")
    given = options.parse_args()
    os.nice(_NICE)
    try:
        with (given.run / LIVE_FILE).open("ab", buffering=0) as out:
            watch(given.run, given.every, out)
    finally:
        end()
    return 0


def watch(run: Path, every_s: float, out: Any) -> None:
    spark = tuned(session("local[1]", memory=_MEMORY, small=True), 0)
    exercise(spark)
    told = (run / "run.json").read_text()
    info = RunInfo.parse(told, str(run / "run.json"))
    overrides = (orjson.loads(told).get("settings") or {}).get("overrides") or {}
    one = Watch(spark, info, time.monotonic_ns, unclean=UNCLEAN in overrides)
    began, looks = time.monotonic(), 0
    _write(out, "began", t=time.monotonic_ns(), cpu_s=_cpu_s())
    over, ended = False, 0
    while True:
        begun = time.monotonic()
        trials = live_trials(run)
        found = list(one.look(trials, last=over))
        looks += 1
        took_s = time.monotonic() - begun
        for accusation in found:
            lag_ms = round((time.monotonic_ns() - accusation.t) / 1e6)
            _write(out, "finding", **accusation.to_dict(), lag_ms=lag_ms)
        cost = {"looks": looks, "took_s": round(took_s, 3), "cpu_s": _cpu_s(), "rows": one.rows}
        ended += over
        if over and (not one.behind(trials) or ended > _LAST_LOOKS):
            break
        _write(out, "figures", t=time.monotonic_ns(), arms=one.figures.now(), **cost)
        over = over or _closed(max(0.0, every_s - (time.monotonic() - begun)))
    seconds = round(time.monotonic() - began, 1)
    _write(out, "ended", t=time.monotonic_ns(), seconds=seconds, left_out=one.left_out, **cost)


def _closed(timeout_s: float) -> bool:
    """Whether standard input has ended within that time."""
    ready = select.select([sys.stdin], [], [], timeout_s)[0]
    return bool(ready) and not os.read(sys.stdin.fileno(), 4096)


def _cpu_s() -> float:
    """What it has cost so far: this process and, by /proc, its JVM."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    ticks = os.sysconf("SC_CLK_TCK")
    jvm = 0.0
    for child in Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split():
        try:
            stat = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        jvm += (int(stat[11]) + int(stat[12])) / ticks
    return round(own.ru_utime + own.ru_stime + jvm, 2)


def _write(out: Any, what: str, **fields: Any) -> None:
    out.write(orjson.dumps({"what": what, **fields}, option=orjson.OPT_APPEND_NEWLINE))


if __name__ == "__main__":
    sys.exit(main())
