"""Which plane serves what, written down once a second: a data request on the control plane, or a
control request elsewhere, is then in the evidence whoever sent it (KIP-291).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from nodes.trace import Trace

Served = Callable[[], Mapping[tuple[str, str, int], int]]
"""(plane, listener, api key) -> requests taken up by that plane's handlers since the start."""


class PlaneUse:
    """`tell` writes what came since it was last called. One thread calls it."""

    def __init__(
        self,
        served: Served,
        trace: Trace,
        api_name: Callable[[int], str],
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._served, self._trace, self._api_name, self._now_ns = served, trace, api_name, now_ns
        self._told: dict[tuple[str, str, int], int] = {}
        self._told_ns = now_ns()

    def tell(self) -> None:
        """One `plane_use` event for each kind of request of which there were any."""
        served, now_ns = dict(self._served()), self._now_ns()
        for (plane, listener, api_key), count in sorted(served.items()):
            requests = count - self._told.get((plane, listener, api_key), 0)
            if requests:
                self._trace.event(
                    "plane_use",
                    t=now_ns,
                    plane=plane,
                    listener=listener,
                    api=self._api_name(api_key),
                    interval_ns=now_ns - self._told_ns,
                    requests=requests,
                )
        self._told, self._told_ns = served, now_ns
