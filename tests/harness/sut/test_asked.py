"""What a broker tells whoever looks at it, and what is made of one that hangs up on a question."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

from harness.runtime.protocol import Address
from harness.sut.external.asked import BrokerSeen, look
from harness.sut.external.form import parse_cluster
from nodes.wire.apis import SUPPORTED, ApiKey, response_class
from nodes.wire.codec import build, encode_response, parse_header

NODE = 111
VERSIONS = {
    "error_code": 0,
    "api_keys": [
        {"api_key": int(api), "min_version": low, "max_version": high}
        for api, (low, high) in SUPPORTED.items()
    ],
}


@contextmanager
def broker(answers: Mapping[int, Any]) -> Iterator[Address]:
    """Answers by API key, and hangs up on every other question."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        server.settimeout(5)

        def serve() -> None:
            connection, _ = server.accept()
            with connection, connection.makefile("rb") as asked:
                while size := asked.read(4):
                    header = parse_header(asked.read(*struct.unpack(">i", size)))
                    if header.api_key not in answers:
                        return
                    answer = build(
                        response_class(header.api_key, header.api_version),
                        **answers[header.api_key],
                    )
                    api, version = header.api_key, header.api_version
                    connection.sendall(encode_response(api, version, header.correlation_id, answer))

        thread = threading.Thread(target=serve)
        thread.start()
        yield Address("127.0.0.1", server.getsockname()[1])
        thread.join()


def told(address: Address) -> dict[str, Any]:
    return {
        "brokers": [{"node_id": NODE, "host": address.host, "port": address.port, "rack": None}],
        "cluster_id": "c",
        "controller_id": NODE,
        "topics": [],
    }


def seen(answers: Mapping[int, Any]) -> BrokerSeen:
    """What is made of a broker that answers so."""
    known = dict(answers)
    with broker(known) as address:
        if ApiKey.METADATA not in known:
            known[ApiKey.METADATA] = told(address)
        rows = f"brokers:\n  {NODE}: {{client: '{address}'}}\n"
        form = parse_cluster(f"cluster: 1\nname: theirs\n{rows}".encode(), "theirs.yaml")
        return look(form).brokers[NODE]


def configs(error: int, message: str = "") -> dict[str, Any]:
    result = {
        "error_code": error, "error_message": message, "resource_type": 4,
        "resource_name": str(NODE), "configs": [],
    }  # fmt: skip
    return {"results": [result]}


def test_a_broker_that_hangs_up_on_a_question_about_settings_is_not_silent() -> None:
    found = seen({ApiKey.API_VERSIONS: VERSIONS})
    assert found.failure is None
    assert found.members.keys() == {NODE}
    assert found.configs_failure is not None
    assert found.configs_failure.startswith("it does not answer DescribeConfigs: ")


def test_a_broker_that_hangs_up_before_is() -> None:
    assert seen({}).failure is not None


def test_another_broker_than_was_listed_is_a_failure() -> None:
    """Kafka: INVALID_REQUEST, "Unexpected broker id"."""
    found = seen({ApiKey.API_VERSIONS: VERSIONS, ApiKey.DESCRIBE_CONFIGS: configs(42, "no")})
    assert found.failure == f"it is not broker {NODE} (no)"
    refused = seen({ApiKey.API_VERSIONS: VERSIONS, ApiKey.DESCRIBE_CONFIGS: configs(29)})
    assert refused.failure is None
    assert refused.configs_failure == "TOPIC_AUTHORIZATION_FAILED"
