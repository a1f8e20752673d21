"""What the harness asks for in all versions and forms, of this broker over a socket: it is served
whole, and told alike, before a run says so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from harness.cluster import versions
from harness.cluster.client_lives import WHOLE, member_lives, writer_lives
from harness.cluster.refusals import refused
from harness.cluster.versions import SAME, compared
from nodes.wire.apis import SUPPORTED, ApiKey
from nodes.wire.client import Connection
from tests.nodes.api.serving import ANY_PORT, serving

SERVED = {int(api): bounds for api, bounds in SUPPORTED.items()}
GROUPS = "__consumer_offsets"


@pytest.fixture
def port(make_node: Any) -> Iterator[int]:
    node = make_node(**ANY_PORT)
    with serving(node) as port:
        for topic in ("t", "u", GROUPS):
            node.lead(topic, 2 if topic == "t" else 1)
        yield port


def test_clients_live_through_all_versions(port: int) -> None:
    def connect(*_: Any) -> Connection:
        return Connection("127.0.0.1", port, "alive")

    members = dict(member_lives(connect, SERVED, "lives", "t"))
    assert members == dict.fromkeys(range(10), WHOLE)
    written = list(writer_lives(connect, SERVED, "u"))
    assert {told for *_, told in written} == {WHOLE}
    assert {api for api, *_ in written} == {ApiKey.PRODUCE, ApiKey.DELETE_RECORDS}


def test_all_forms_are_answered_alike(port: int) -> None:
    def connect(*_: Any) -> Connection:
        return Connection("127.0.0.1", port, "alive")

    assert {told for *_, told in writer_lives(connect, {**SERVED, 21: (0, -1)}, "u")} == {WHOLE}
    led = {"t": [(0, 0), (1, 0)], "u": [(0, 0)]}
    partitions = {topic: [p for p, _ in each] for topic, each in led.items()}
    asked = versions._Asked(
        ["t", "u"], led, partitions, True, True, True, SERVED, {}, ["one", "another"]
    )
    for question in versions.questions(asked):
        found = list(compared(question, ("127.0.0.1", port)))
        assert {(says, known) for _, says, known in found} == {(SAME, True)}, question.about


def test_what_is_refused_is_refused_alike_in_all_versions(port: int) -> None:
    groups = {"its own": "a group"}
    found = [
        (question.about, how, says)
        for question in refused(SERVED, groups, [("t", 0)], [("u", 0)])
        for how, says, _ in compared(question, ("127.0.0.1", port))
        if says != SAME
    ]
    assert not found
