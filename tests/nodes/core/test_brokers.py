"""Who a broker is, and whose an address is (KafkaServer.createBrokerInfo)."""

from __future__ import annotations

import pytest

from nodes.core.brokers import Broker, EndPoint, check_endpoints_are_free
from nodes.core.errors import ApiError

NAMES = ("CONTROLLER", "REPLICATION", "CLIENT")
OWN = [("a", 1), ("b", 2), ("c", 3)]


def broker(broker_id: int, addresses: list[tuple[str, int]]) -> Broker:
    endpoints = (
        EndPoint(name, "PLAINTEXT", host, port)
        for name, (host, port) in zip(NAMES, addresses, strict=True)
    )
    return Broker(broker_id, tuple(endpoints))


@pytest.mark.parametrize("own", range(3))
@pytest.mark.parametrize("foreign", range(3))
def test_a_host_and_port_is_one_brokers_whatever_the_listener(own: int, foreign: int) -> None:
    others = [("x", 7), ("y", 8), ("z", 9)]
    others[foreign] = OWN[own]
    with pytest.raises(ApiError, match=f"{NAMES[own]}://.* in use by broker 2"):
        check_endpoints_are_free(broker(1, OWN), [broker(3, [("q", 1)] * 3), broker(2, others)])


def test_what_looks_alike_is_free() -> None:
    """The same port of another host, another port of the same host, and what is still registered
    of the broker's own previous life."""
    alike = [("b", 1), ("c", 2), ("a", 3)]
    check_endpoints_are_free(broker(1, OWN), [broker(2, alike), broker(1, OWN)])
    check_endpoints_are_free(broker(1, OWN), [])


def test_an_endpoint_is_found_by_its_whole_name() -> None:
    found = broker(1, OWN).endpoint("REPLICATION")
    assert found == EndPoint("REPLICATION", "PLAINTEXT", "b", 2)
    for name in ("replication", "REPLICATION2", "REPLICATIO", ""):
        assert broker(1, OWN).endpoint(name) is None
