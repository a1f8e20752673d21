"""Every version of every API that is offered is answered, with its own layout, and so is every
failure: a client that negotiated a version can rely on both."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from nodes.api.failures import fail
from nodes.core.errors import ApiError, Errors
from nodes.wire.apis import SUPPORTED, ApiKey, request_class
from nodes.wire.codec import build, decode_response
from tests.nodes.api.bodies import BODIES

EVERY = [
    pytest.param(api, version, id=f"{api.name}-{version}")
    for api, (low, high) in SUPPORTED.items()
    for version in range(low, high + 1)
]


@pytest.mark.parametrize(("api", "version"), EVERY)
def test_is_answered(
    node: Any, api: ApiKey, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    node.lead("t")
    node._correlation_id = -(2**31)  # any number is lawful; `call` looks for it in the answer
    with caplog.at_level(logging.ERROR):
        answer = node.call(api, version, **BODIES.get(api, {}))
    assert not caplog.records
    assert "unknown_server_error" not in repr(answer)
    assert not getattr(answer, "throttle_time", None), "nobody is throttled here"


@pytest.mark.parametrize("correlation_id", [0, 1, -1, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("api", [ApiKey.API_VERSIONS, ApiKey.METADATA])
def test_an_answer_that_was_kept_is_each_time_to_its_request(
    node: Any, api: ApiKey, correlation_id: int
) -> None:
    node.lead("t")
    low, high = SUPPORTED[api]
    for version in range(low, high + 1):
        for number in (3, correlation_id, 4, correlation_id):
            node._correlation_id = number - 1
            node.call(api, version, **BODIES.get(api, {}))


@pytest.mark.parametrize(("api", "version"), EVERY)
def test_a_failure_has_a_place(api: ApiKey, version: int) -> None:
    frames: list[bytes] = []
    body = build(request_class(api, version), **BODIES.get(api, {}))
    request: Any = SimpleNamespace(
        api_key=int(api),
        api_version=version,
        correlation_id=-7,
        body=body,
        respond=frames.append,
    )
    fail(request, Errors.UNKNOWN_SERVER_ERROR, "why")
    (frame,) = frames
    correlation_id, answer = decode_response(api, version, frame[4:])
    assert correlation_id == -7
    # Lists that the body leaves empty have no row to carry the error.
    if api not in (ApiKey.DELETE_TOPICS, ApiKey.OFFSET_FETCH, ApiKey.FIND_COORDINATOR):
        assert "unknown_server_error" in repr(answer)


def test_an_unexpected_error_is_answered_and_logged(
    node: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(node.manager, "list_offset", broken)
    monkeypatch.setattr(node.admin, "delete_topics", broken)
    node.lead("t")
    answer = node.call(ApiKey.LIST_OFFSETS, 5, **BODIES[ApiKey.LIST_OFFSETS])
    assert answer.topics[0].partitions[0].error_code == Errors.UNKNOWN_SERVER_ERROR
    answer = node.call(ApiKey.DELETE_TOPICS, 5, topic_names=["t"])
    assert answer.responses[0].error_code == Errors.UNKNOWN_SERVER_ERROR
    assert "a bug" in caplog.text


def test_no_answer_possible_closes_the_connection(
    node: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nodes.api.apis.fail", lambda *_: 1 / 0)
    monkeypatch.setattr(node.manager, "list_offset", lambda *_: 1 / 0)
    node.lead("t")
    reply = node.send(ApiKey.LIST_OFFSETS, 5, **BODIES[ApiKey.LIST_OFFSETS])
    assert reply.wait() is None


@pytest.mark.parametrize(
    ("problem", "error", "message", "lines"),
    [
        (ApiError(Errors.INVALID_REQUEST, "why"), 42, "why", 0),
        (ApiError(Errors.NOT_CONTROLLER), 41, "NOT_CONTROLLER", 0),
        (RuntimeError("a secret"), -1, None, 1),
    ],
)
def test_what_a_handler_raises_is_the_answer(
    node: Any,
    caplog: pytest.LogCaptureFixture,
    problem: Exception,
    error: int,
    message: str | None,
    lines: int,
) -> None:
    """With its own words, where there are any; a bug's are for the log alone."""

    def handle(_: Any) -> None:
        raise problem

    node.apis._handlers[int(ApiKey.DESCRIBE_CLUSTER)] = handle
    with caplog.at_level(logging.INFO, "kafka.server.KafkaApis"):
        answer = node.call(ApiKey.DESCRIBE_CLUSTER, 1)
    assert answer.error_code == error
    assert answer.error_message == message
    found = [r for r in caplog.records if r.name == "kafka.server.KafkaApis"]
    assert [(r.levelname, bool(r.exc_info)) for r in found] == [("ERROR", True)] * lines
    if found:
        text = "[KafkaApi-1] Unexpected error handling request Request(api_key=60, api_version=1, "
        assert found[0].getMessage().startswith(text)
