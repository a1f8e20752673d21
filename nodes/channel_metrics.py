"""What the controller's own metrics say of its queues, written down as an operator would read them
(KIP-291's motivation: `QueueSize` and `RequestRateAndQueueTimeMs` tell of an overloaded broker).

Read by MBean name from the registry that JMX's stand-in serves, not from the queues: whether they
tell the truth can then be judged against the requests themselves (`control_send`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from nodes.metrics import Metrics
from nodes.trace import Trace

_MBEAN: Final = "kafka.controller:type=ControllerChannelManager,name="
SIZE: Final = _MBEAN + "QueueSize,broker-id="
TIME: Final = _MBEAN + "RequestRateAndQueueTimeMs,broker-id="


class ChannelMetrics:
    """`tell` writes one `channel_queue` event for each broker that the controller has a channel to:
    none where this broker is not the controller. One thread calls it."""

    def __init__(
        self, metrics: Metrics, trace: Trace, now_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._metrics, self._trace, self._now_ns = metrics, trace, now_ns

    def tell(self) -> None:
        for mbean in self._metrics.names(SIZE):
            to = int(mbean.removeprefix(SIZE))
            from_ns = self._now_ns()
            size = self._metrics.attributes(mbean)
            times = self._metrics.attributes(f"{TIME}{to}")
            if not size or not times:
                continue  # the channel ended meanwhile
            self._trace.event(
                "channel_queue",
                t=self._now_ns(),
                to=to,
                from_t=from_ns,
                size=int(size["Value"]),
                taken=int(times["Count"]),
                queue_time_p99_us=int(times["99thPercentile"] * 1000),
                queue_time_max_us=int(times["Max"] * 1000),
            )
