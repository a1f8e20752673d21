"""``python -m benchmarks.live_lag``: how long after it happened a watch tells of it, by load.

A made run is written as workloads write theirs, as fast as ``--rates`` say (rows a second: half of
the records' operations are invocations, a quarter acknowledgements, a quarter reads), while
`checkers.live` watches it in a process of its own, as beside a run. Every two seconds the consumer
reads another value than the one that acks=all has acknowledged. Told by rate:

    lag         from such a read to the line in live.jsonl: median and worst of those planted
    to the end  from the last row to the watch's end, once nobody writes any more
    CPU         of the watch, Spark included: seconds a second of the run
    written     rows a second that there were in truth; the machine may be too busy for more

Ends with 1 when a plant was not told of, or anything else was.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from checkers.live import LIVE_FILE

PRODUCERS, PARTITIONS = 4, 40
PLANT_S, TICK_S = 2.0, 0.02
"""A plant has a partition of its own: of each the first offset tells of all."""
_START_S, _END_S = 180.0, 300.0
# As workloads write them.
_INVOKE = (
    b'{"f":"produce","t":%d,"process":"producer-%d","seq":%d,"type":"invoke","op":%d,'
    b'"topic":"t","partition":%d,"value":%d,"acks":-1,"node":1}\n'
)
_OK = (
    b'{"f":"produce","t":%d,"process":"producer-%d","seq":%d,"type":"ok","op":%d,'
    b'"invoke_t":%d,"topic":"t","partition":%d,"value":%d,"acks":-1,"node":1,'
    b'"error":0,"offset":%d,"log_append_time_ms":0}\n'
)
_READ = (
    b'{"f":"fetch","t":%d,"process":"consumer","seq":%d,"type":"ok","op":%d,'
    b'"invoke_t":%d,"topic":"t","partition":%d,"poll":%d,"offset":%d,"value":%d,'
    b'"whole":true,"leader_epoch":0}\n'
)


@dataclass(slots=True)
class Load:
    """A made run's rows, written when their time has come. ``planted``: when (ns), by partition."""

    live: Path
    rate: int
    rows: int = 0
    planted: dict[int, int] = field(default_factory=dict)
    _ends: list[int] = field(default_factory=lambda: [0] * PARTITIONS)
    _wrong: bool = False
    """A plant is due."""

    def write(self, seconds: float) -> float:
        """Rows a second that there were."""
        began = time.monotonic()
        files = [(self.live / f"producer-{n}.jsonl").open("ab") for n in range(PRODUCERS)]
        with (self.live / "consumer.jsonl").open("ab") as consumer:
            while (at := time.monotonic() - began) < seconds:
                due = int(at * self.rate / 4) - self.rows // 4
                for n, file in enumerate(files):
                    texts = list(self._records(n, due // PRODUCERS))
                    file.write(b"".join(text for text, _ in texts))
                    file.flush()
                    consumer.write(b"".join(read for _, read in texts))
                consumer.flush()
                self._wrong = at > PLANT_S * (1 + len(self.planted)) and at < seconds - PLANT_S
                time.sleep(TICK_S)
        for file in files:
            file.close()
        return self.rows / (time.monotonic() - began)

    def _records(self, producer: int, count: int) -> Iterator[tuple[bytes, bytes]]:
        """Of each record what its producer and what its consumer wrote."""
        t = time.monotonic_ns()
        for _ in range(count):
            op = self.rows // 4
            partition = op % PARTITIONS
            offset = self._ends[partition]
            self._ends[partition] += 1
            at = (partition, op)
            invoke = _INVOKE % (t - 5_000_000, producer, op, op, *at)
            ok = _OK % (t, producer, op, op, t - 5_000_000, *at, offset)
            is_wrong = self._wrong and partition == len(self.planted)
            if is_wrong:
                self._wrong, self.planted[partition] = False, t
            value = -op if is_wrong else op
            read = _READ % (t, op, op, t, partition, op, offset, value)
            empty = _INVOKE.replace(b"produce", b"fetch", 1) % (t, producer, op, op, *at)
            self.rows += 4
            yield invoke + ok + empty, read


def measure(rate: int, seconds: float, folder: Path) -> tuple[str, bool]:
    """A line of the table, and whether it told of all that was planted and of nothing else."""
    run = folder / f"run-{rate}"
    live = run / "trials" / "made-0" / "live"
    live.mkdir(parents=True)
    (run / "run.json").write_text(json.dumps({"version": 1, "arms": {}}))
    watch = subprocess.Popen(
        [sys.executable, "-m", "checkers.live", str(run)], stdin=subprocess.PIPE
    )
    assert watch.stdin is not None
    try:
        deadline = time.monotonic() + _START_S
        while not (began := _told(run, "began")):
            if watch.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the watch did not begin")
            time.sleep(0.1)
        load = Load(live, rate)
        written = load.write(seconds)
        over = time.monotonic()
        watch.stdin.close()
        watch.wait(_END_S)
        left_s = time.monotonic() - over
    finally:
        watch.kill()
        watch.wait()
    lags = {
        int(one["says"].partition(" offset ")[0].rpartition("-")[2]): one["lag_ms"] / 1000
        for one in _told(run, "finding")
    }
    (ended,) = _told(run, "ended")
    cost = (ended["cpu_s"] - began[0]["cpu_s"]) / ended["seconds"]
    told = [lags[partition] for partition in load.planted if partition in lags]
    sound = lags.keys() == load.planted.keys() and not ended["left_out"]["lines"]
    lag = f"{statistics.median(told):.1f} / {max(told):.1f}" if told else "- / -"
    line = f"{rate:>7,} {written:>9,.0f} {lag:>13} s {left_s:>8.1f} s {cost:>6.2f}"
    return f"{line}  {len(told)} of {len(load.planted)}  {ended['left_out']}", sound


def _told(run: Path, what: str) -> list[dict[str, Any]]:
    path = run / LIVE_FILE
    lines = path.read_bytes().splitlines() if path.exists() else []
    return [entry for entry in map(json.loads, lines) if entry["what"] == what]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rates", type=int, nargs="+", default=[1_000, 10_000, 40_000])
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    print("   rate   written  lag med/worst  to the end    CPU  told  left out")
    all_sound = True
    with tempfile.TemporaryDirectory(prefix="biplane-live-lag-") as folder:
        for rate in options.rates:
            line, sound = measure(rate, options.seconds, Path(folder))
            print(line, flush=True)
            all_sound &= sound
    return 0 if all_sound else 1


if __name__ == "__main__":
    sys.exit(main())
