"""``zombie-controller``: a controller that was replaced and does not know it.

A *real* zombie: the active controller loses ZooKeeper (its proxy is cut) or is stopped (SIGSTOP)
for longer than its session, while its connections to the brokers live on. ZooKeeper expires it,
another broker is elected with the next controller epoch, and the old one still holds its channels.
What it then sends carries the old controller epoch, and brokers that have heard of the successor
must refuse it (STALE_CONTROLLER_EPOCH).

``backlog`` gives it something to send: beforehand the control link of another broker (the witness)
is cut and a topic is created with a replica there, so that the controller's send thread retries a
LeaderAndIsr and UpdateMetadata with its own epoch. Were the link simply opened again, zombie and
successor would race to the witness, and one that has not heard of the successor rightly obeys the
zombie. So the order is made sure of: the zombie is held still (SIGSTOP) while the link comes back
and the witness hears of the successor (it names it to clients), and only then goes on, cut from
ZooKeeper, so that it speaks before it can learn. Where nodes cannot be paused, they race.
"""

from __future__ import annotations

from typing import Final

from faults.base import BaseFault, wait_for
from faults.params import Params
from faults.probe import told_controller
from faults.protocol import Capability, Context, Entry, FaultFailed, Link
from faults.targets import aim

_HEARD_TIMEOUT_MS: Final = 15_000
_ASK_TIMEOUT_S: Final = 1.0
_HOWS: Final = ("zookeeper-cut", "pause")


class ZombieController(BaseFault):
    """Parameters: how ("zookeeper-cut", "pause"); backlog; takeover_ms: how long a successor may
    take; resume_after_takeover: wake a paused zombie as soon as it has been replaced (else at
    heal); speak_ms: how long a zombie that has a backlog is left to it before it can be healed (a
    controller tries again every 100 ms).
    """

    name = "zombie-controller"
    needs = frozenset({Capability.ZOOKEEPER, Capability.LINKS})

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.how = params.choice("how", _HOWS, "zookeeper-cut")
        self.backlog = params.flag("backlog", False)
        self.takeover_ms = params.integer("takeover_ms", 45_000, low=1)
        self.resume_after_takeover = params.flag("resume_after_takeover", True)
        self.speak_ms = params.integer("speak_ms", 1000, low=0)
        params.done()

    def apply(self, ctx: Context) -> None:
        if self.how == "pause" and Capability.PAUSE not in ctx.capabilities:
            raise FaultFailed(f"{self.name} with how=pause needs {Capability.PAUSE}")
        (zombie,) = aim(ctx, ["controller"])
        old_epoch = ctx.view.controller_epoch()
        self.nodes = [zombie]
        self.detail |= {"zombie": zombie, "controller_epoch": old_epoch, "how": self.how}
        if self.backlog:
            self._pile_up(ctx, zombie)
        started = ctx.now_ns()
        if self.how == "pause":
            self.pause(ctx, zombie)
        else:
            self.cut(ctx, zombie, Link.ZOOKEEPER)
        wait_for(
            ctx,
            lambda: (
                ctx.view.controller() not in (None, zombie)
                and ctx.view.controller_epoch() > old_epoch
            ),
            timeout_ms=self.takeover_ms,
            what=f"another controller than broker {zombie} with an epoch above {old_epoch}",
        )
        self.detail |= {
            "successor": ctx.view.controller(),
            "successor_epoch": ctx.view.controller_epoch(),
            "takeover_ns": ctx.now_ns() - started,
        }
        wakes = self.how != "pause" or self.resume_after_takeover
        if self.backlog and wakes and Capability.PAUSE in ctx.capabilities:
            # Without ZooKeeper and still, whichever of the two it is already.
            self.cut(ctx, zombie, Link.ZOOKEEPER)
            self.pause(ctx, zombie)
            self._open_control_link(ctx)
            self._await_heard(ctx)
            self.resume(ctx, zombie)
            ctx.sleep(self.speak_ms / 1000)
        else:
            if wakes:
                self.resume(ctx, zombie)
            self._open_control_link(ctx)
        self.took_hold = True

    def _await_heard(self, ctx: Context) -> None:
        witness = self.detail["witness"]
        address = ctx.links.address(witness, Link.CLIENT)
        started = ctx.now_ns()

        def heard() -> bool:
            told = told_controller(address, timeout_s=_ASK_TIMEOUT_S)
            return told is not None and told in (self.detail["successor"], ctx.view.controller())

        wait_for(
            ctx,
            heard,
            timeout_ms=_HEARD_TIMEOUT_MS,
            what=f"broker {witness} names the successor as its controller",
        )
        self.detail["heard_ns"] = ctx.now_ns() - started

    def _open_control_link(self, ctx: Context) -> None:
        if (witness := self.detail.get("witness")) is not None:
            self.mend(ctx, witness, Link.CONTROL)

    def _pile_up(self, ctx: Context, zombie: int) -> None:
        others = [n for n in sorted(ctx.view.live_brokers()) if n != zombie]
        if not others:
            raise FaultFailed("backlog needs a second live broker")
        witness = ctx.rng.choice(others)
        self.cut(ctx, witness, Link.CONTROL)
        topic = f"zombie-{self.id}"
        # The zombie leads it, so that creation needs no answer from the witness.
        ctx.admin.create_topic(topic, {0: [zombie, witness]}, {})
        self.detail |= {"witness": witness, "topic": topic}
