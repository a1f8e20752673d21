"""A controller's succession in the middle of something, for the faults that bring it about.

An operator removes ``/controller`` (`Admin.remove_controller`): whoever is quickest is elected, the
one of before perhaps. Either way it begins anew, with what ZooKeeper says, and has to go on with
whatever was under way.
"""

from __future__ import annotations

from faults.base import wait_for
from faults.protocol import Context


def succeed(ctx: Context, *, timeout_ms: int) -> dict[str, int | None]:
    """Returns when a newer controller is in office; who, and by which controller epoch."""
    before = ctx.view.controller_epoch()
    ctx.admin.remove_controller()
    wait_for(
        ctx,
        lambda: ctx.view.controller() is not None and ctx.view.controller_epoch() > before,
        timeout_ms=timeout_ms,
        what=f"a controller with an epoch above {before}",
    )
    return {
        "successor": ctx.view.controller(),
        "successor_epoch": ctx.view.controller_epoch(),
    }
