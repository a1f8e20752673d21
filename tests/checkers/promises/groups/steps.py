"""Steps that a pair of members takes with its coordinator, as rows."""

from __future__ import annotations

from typing import Any, Final

from tests.checkers.conftest import Story

GROUP: Final = "pair"


def step(
    told: Story,
    t: float,
    name: str,
    error: int | None = 0,
    *,
    session_ms: int,
    **more: Any,
) -> None:
    """Of ``GROUP`` on node 1, answered at ``t`` (ms); ``error`` None: not at all."""
    kind = "info" if error is None else "fail" if error else "ok"
    fields = {"node": 1, "group": GROUP, "step": name, "error": error, "invoke_t": t - 10}
    if name == "enter":
        fields["keep_ms"] = session_ms
    told.add("group_step", t, **{**fields, "type": kind, **more})
