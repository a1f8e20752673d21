"""A controller's succession in the middle of something, for the faults that bring it about.

An operator removes ``/controller`` (`Admin.remove_controller`): whoever is quickest is elected, the
one of before perhaps. Either way it begins anew, with what ZooKeeper says, and has to go on with
whatever was under way.
"""

from __future__ import annotations

from faults.base import wait_for
from faults.protocol import Context

Office = dict[str, int | None]
"""``successor`` and ``successor_epoch``: who is in office, and by which controller epoch."""


def succeed(ctx: Context, *, timeout_ms: int) -> Office:
    """Returns when a newer controller is in office."""
    before = ctx.view.controller_epoch()
    ctx.admin.remove_controller()
    wait_for(
        ctx,
        lambda: ctx.view.controller() is not None and ctx.view.controller_epoch() > before,
        timeout_ms=timeout_ms,
        what=f"a controller with an epoch above {before}",
    )
    return _office(ctx)


def await_another(ctx: Context, old: int, old_epoch: int, *, timeout_ms: int) -> Office:
    """Returns when another than that controller is in office, in a newer epoch."""

    def succeeded() -> bool:
        return ctx.view.controller() not in (None, old) and ctx.view.controller_epoch() > old_epoch

    wait_for(
        ctx,
        succeeded,
        timeout_ms=timeout_ms,
        what=f"another controller than broker {old} with an epoch above {old_epoch}",
    )
    return _office(ctx)


def _office(ctx: Context) -> Office:
    return {"successor": ctx.view.controller(), "successor_epoch": ctx.view.controller_epoch()}
