"""``frames``: single requests or answers of one API are held, delayed, dropped, doubled, refused or
have their connection closed, on their way to a listener.

    hold the next LeaderAndIsr to broker 2 for 3 s     api LEADER_AND_ISR, action delay, times 1,
                                                       delay_ms 3000, target "2", link control
    fail the next AlterPartition once                  api ALTER_PARTITION, action error, times 1,
                                                       error NOT_CONTROLLER, target "controller"
    a follower gets no answer to its fetches           api FETCH, direction response, action hold,
                                                       target "leader:t-0", sender "follower:t-0"

What comes after a frame on its connection waits for it, as it would on a slow network. Heal lets
go of what is held.
"""

from __future__ import annotations

import re
from typing import Final

from faults.base import BaseFault, wait_for
from faults.params import Params
from faults.protocol import Capability, Context, Entry, Link
from faults.targets import aim, read_targets

ACTIONS: Final = ("hold", "delay", "drop", "duplicate", "error", "close")
_API: Final = re.compile(r"[A-Z]+(_[A-Z]+)*\Z")
_ANYWHERE: Final = "anywhere"


def client_of(node: int) -> str:
    """The client ids, as a regular expression, with which a broker speaks to its peers: its number
    (to a controller, or as one), and ``broker-N-fetcher-K`` as a follower."""
    return rf"{node}|broker-{node}-fetcher-\d+"


class FramesFault(BaseFault):
    """Parameters: api (Kafka's name, FETCH); action; direction ("request", "response"); target
    (whose listener; "anywhere": all of them); link (default: any); sender (a target: whose requests
    or answers to whose requests; default: anybody's); skip, times (0: all); delay_ms; error (for
    action error); within_ms: how long inject waits for the first that is met (0: it does not).

    Took hold: a frame was acted on. Where inject does not wait, that is known when it is healed.
    """

    name = "frames"
    needs = frozenset({Capability.FRAMES})

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.api = params.text("api")
        if not _API.match(self.api):
            raise params.error(
                "api", f"{self.api!r} is not allowed; allowed: such as LEADER_AND_ISR"
            )
        self.action = params.choice("action", ACTIONS)
        self.direction = params.choice("direction", ("request", "response"), "request")
        anywhere = entry.params.get("target") == _ANYWHERE
        self.targets = [] if anywhere else read_targets(params)
        if anywhere:
            params.text("target")
        link = params.optional_text("link")
        if link is not None and link not in list(Link):
            raise params.error("link", f"{link!r} is not allowed; allowed: {', '.join(Link)}")
        self.link = None if link is None else Link(link)
        self.sender = read_targets(params, "sender") if "sender" in entry.params else []
        self.skip = params.integer("skip", 0)
        self.times = params.integer("times", 0)
        self.delay_ms = params.integer("delay_ms", 0, high=600_000)
        self.error = params.optional_text("error")
        self.within_ms = params.integer("within_ms", 0)
        params.done()
        if (self.action == "error") is not (self.error is not None):
            raise params.error("error", "is for action error, and required there")
        if (self.action == "delay") is not (self.delay_ms > 0):
            raise params.error("delay_ms", "is for action delay, and required there")
        if self.action == "error" and self.direction == "response":
            raise params.error("action", "'error' is not allowed; allowed: for requests")
        self._placed: list[str] = []

    def apply(self, ctx: Context) -> None:
        self.nodes = aim(ctx, self.targets) if self.targets else []
        senders = aim(ctx, self.sender) if self.sender else []
        self.detail |= {"targets": self.targets, "sender": senders, "api": self.api}
        client = "|".join(client_of(node) for node in senders) or None
        listeners: list[int | None] = [*self.nodes] or [None]
        for node in listeners:
            rule = self.id if node is None else f"{self.id}-{node}"
            self._placed.append(rule)
            ctx.frames.add(
                rule,
                api=self.api,
                action=self.action,
                direction=self.direction,
                node=node,
                link=self.link,
                client=client,
                skip=self.skip,
                times=self.times,
                delay_ms=self.delay_ms,
                error=self.error,
            )
        if self.within_ms:
            wait_for(
                ctx,
                lambda: any(ctx.frames.count(rule).applied for rule in self._placed),
                timeout_ms=self.within_ms,
                what=f"a {self.direction} of {self.api} to be met",
            )
            self.took_hold = True

    def undo(self, ctx: Context) -> None:
        while self._placed:
            count = ctx.frames.remove(self._placed[-1])
            self._placed.pop()
            for name, n in (("matched", count.matched), ("applied", count.applied)):
                self.detail[name] = self.detail.get(name, 0) + n
            self.took_hold = bool(self.detail["applied"])
