"""How Kafka's brokers are started: the virtual machine's options.

The heap is small and the compiler's first tier enough: three brokers are to start in seconds on
two cores (5.7 s instead of 8.1 s) and fit beside the load. ``KAFKA_HEAP_OPTS``, which Kafka's own
scripts read, takes the heap's place; measure throughput with Kafka's (``-Xms1g -Xmx1g``).

Out of heap is an end with a reason (exit code 3, and a line that says so), not a broker that limps
on; and log files are in UTC, whatever the machine's zone (`kafka_evidence.lines`).
"""

from __future__ import annotations

import os
import re
from typing import Final

from harness.runtime.protocol import SetupError

HEAP_VARIABLE: Final = "KAFKA_HEAP_OPTS"
_HEAP: Final = ("-Xms384m", "-Xmx384m")
_OPTIONS: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_ALWAYS: Final = ("-XX:+ExitOnOutOfMemoryError", "-Duser.timezone=UTC")
_ALLOWED: Final = re.compile(r"-X(m[sxn]|ss)\d+[kKmMgG]?")


def jvm_options() -> tuple[str, ...]:
    """Raises `SetupError` for a heap that no virtual machine would take."""
    text = os.environ.get(HEAP_VARIABLE, "").split()
    for option in text:
        if not _ALLOWED.fullmatch(option):
            raise SetupError(
                f"{HEAP_VARIABLE}: {option!r}; allowed: -Xms, -Xmx, -Xmn or -Xss and a size, such "
                "as -Xms384m -Xmx384m"
            )
    return (*(text or _HEAP), *_OPTIONS, *_ALWAYS)
