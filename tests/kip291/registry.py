"""ZooKeeper as a test writes it: registrations and topics in Kafka's JSON, by hand.

Nothing of `nodes.coordination` is used, so that a controller is seen to read what any broker of
Kafka's would have written.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError


class Registry:
    """One session. Its registrations go with it."""

    def __init__(self, zookeeper: str) -> None:
        """`zookeeper`: host:port/chroot."""
        host, _, chroot = zookeeper.partition("/")
        root = KazooClient(host, timeout=30)
        root.start(60)
        root.ensure_path(f"/{chroot}")
        root.stop()
        root.close()
        self._client = KazooClient(zookeeper, timeout=30)
        self._client.start(60)
        for path in ("/brokers/ids", "/brokers/topics", "/config/changes", "/config/brokers"):
            self._client.ensure_path(path)

    def register(
        self, broker_id: int, endpoints: Iterable[tuple[str, int]], *, version: int = 4
    ) -> None:
        """A broker with (listener, port) pairs on loopback, in this order."""
        pairs = list(endpoints)
        fields: dict[str, Any] = {
            "version": version,
            "host": None,
            "port": -1,
            "endpoints": [f"{name}://127.0.0.1:{port}" for name, port in pairs],
            "listener_security_protocol_map": {name: "PLAINTEXT" for name, _ in pairs},
            "jmx_port": -1,
            "timestamp": "1700000000000",
        }
        if version >= 5:
            fields["features"] = {}
        self._client.create(
            f"/brokers/ids/{broker_id}", json.dumps(fields).encode(), ephemeral=True
        )

    def unregister(self, broker_id: int) -> None:
        self._client.delete(f"/brokers/ids/{broker_id}")

    def registration(self, broker_id: int) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._client.get(f"/brokers/ids/{broker_id}")[0])
        return found

    def broker_ids(self) -> set[int]:
        return {int(name) for name in self._client.get_children("/brokers/ids")}

    def controller_id(self) -> int | None:
        try:
            return int(json.loads(self._client.get("/controller")[0])["brokerid"])
        except NoNodeError:
            return None

    def controller_epoch(self) -> int:
        return int(self._client.get("/controller_epoch")[0])

    def depose_controller(self) -> None:
        """Takes `/controller` away: whoever is there stands for election."""
        self._client.delete("/controller")

    def broker_epoch(self, broker_id: int) -> int:
        return int(self._client.get(f"/brokers/ids/{broker_id}")[1].czxid)

    def create_topic(self, topic: str, assignment: Sequence[Sequence[int]]) -> None:
        topic_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        fields = {
            "version": 3,
            "partitions": {str(p): list(replicas) for p, replicas in enumerate(assignment)},
            "adding_replicas": {},
            "removing_replicas": {},
            "topic_id": topic_id,
        }
        self._client.create(f"/brokers/topics/{topic}", json.dumps(fields).encode())

    def delete_topic(self, topic: str) -> None:
        """What kafka-topics.sh --delete does: the controller is asked to."""
        self._client.ensure_path(f"/admin/delete_topics/{topic}")

    def state(self, topic: str, partition: int = 0) -> dict[str, Any] | None:
        path = f"/brokers/topics/{topic}/partitions/{partition}/state"
        try:
            found: dict[str, Any] = json.loads(self._client.get(path)[0])
        except NoNodeError:
            return None
        return found

    def set_broker_configs(self, broker_id: int, configs: Mapping[str, str]) -> None:
        """What kafka-configs.sh --zookeeper does: the configs, and a notification of them."""
        path = f"/config/brokers/{broker_id}"
        self._client.ensure_path(path)
        self._client.set(path, json.dumps({"version": 1, "config": dict(configs)}).encode())
        change = {"version": 2, "entity_path": f"brokers/{broker_id}"}
        self._client.create(
            "/config/changes/config_change_", json.dumps(change).encode(), sequence=True
        )

    def close(self) -> None:
        self._client.stop()
        self._client.close()
