"""What IncrementalAlterConfigs makes of overrides."""

from __future__ import annotations

import pytest

from nodes.core.config_alterations import Alteration, altered
from nodes.core.errors import ApiError, Errors

SET, DELETE, APPEND, SUBTRACT = range(4)
LIST = "policy"


def result(now: dict[str, str], *rows: tuple[str, int, str | None]) -> dict[str, str]:
    return altered(
        now,
        [Alteration(*row) for row in rows],
        is_list=lambda name: name == LIST,
        default_of=lambda name: "delete" if name == LIST else None,
    )


@pytest.mark.parametrize(
    ("now", "row", "then"),
    [
        ({"a": "1"}, ("b", SET, "2"), {"a": "1", "b": "2"}),
        ({"a": "1"}, ("a", SET, ""), {"a": ""}),
        ({"a": "1"}, ("a", DELETE, None), {}),
        ({}, ("a", DELETE, None), {}),
        ({}, (LIST, APPEND, "compact"), {LIST: "delete,compact"}),
        ({LIST: "x"}, (LIST, APPEND, "x, y"), {LIST: "x,y"}),
        ({LIST: "x,y"}, (LIST, SUBTRACT, "x"), {LIST: "y"}),
        ({}, (LIST, SUBTRACT, "delete"), {LIST: ""}),
    ],
)
def test_operations(
    now: dict[str, str], row: tuple[str, int, str | None], then: dict[str, str]
) -> None:
    before = dict(now)
    assert result(now, row) == then
    assert now == before


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ([("a", SET, None)], Errors.INVALID_REQUEST),
        ([("a", SET, "1"), ("a", SET, "2")], Errors.INVALID_REQUEST),
        ([("a", 4, "1")], Errors.INVALID_REQUEST),
        ([("a", -1, "1")], Errors.INVALID_REQUEST),
        ([("a", APPEND, "1")], Errors.INVALID_CONFIG),
        ([("a", SUBTRACT, "1")], Errors.INVALID_CONFIG),
    ],
)
def test_refusals(rows: list[tuple[str, int, str | None]], error: Errors) -> None:
    with pytest.raises(ApiError) as refused:
        result({}, *rows)
    assert refused.value.error is error
