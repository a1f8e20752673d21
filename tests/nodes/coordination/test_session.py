"""What a session does when ZooKeeper cannot be reached for a while, or for too long."""

from __future__ import annotations

import threading
from queue import SimpleQueue

import pytest

from nodes.coordination.errors import SessionClosed, SessionExpired
from nodes.coordination.session import ChangeHandler, ChildChangeHandler, StateHandler
from nodes.core.brokers import Broker


def test_watches_tell_once_per_arming(zk, connect):
    told: SimpleQueue[str] = SimpleQueue()
    handler = ChangeHandler(
        "/x",
        created=lambda: told.put("created"),
        deleted=lambda: told.put("deleted"),
        data_changed=lambda: told.put("changed"),
    )
    other = connect()
    assert not zk.register_znode_change_handler_and_check_existence(handler)
    other.set_or_create("/x", b"1")
    assert told.get(timeout=60) == "created"
    other.set_or_create("/x", b"2")
    zk.get_data_and_version("/x")
    other.set_or_create("/x", b"3")
    assert told.get(timeout=60) == "changed"
    zk.get_data_and_version("/x")
    other.delete_recursive("/x")
    assert told.get(timeout=60) == "deleted"
    assert told.empty()


def test_changes_missed_while_cut_off_are_told_on_return(connect, cuttable_proxy, wait_until):
    zk, other = connect(cuttable_proxy.address), connect()
    told: SimpleQueue[str] = SimpleQueue()
    zk.register_znode_child_change_handler(
        ChildChangeHandler("/brokers/topics", lambda: told.put("topics"))
    )
    zk.register_znode_child_change_handler(
        ChildChangeHandler("/admin/delete_topics", lambda: told.put("deletions"))
    )
    for name in ("made", "gone", "set", "same"):
        handler = ChangeHandler(
            f"/{name}",
            created=lambda name=name: told.put(f"{name} created"),
            deleted=lambda name=name: told.put(f"{name} deleted"),
            data_changed=lambda name=name: told.put(f"{name} changed"),
        )
        zk.register_znode_change_handler(handler)
        if name != "made":
            other.set_or_create(f"/{name}", b"")
        zk.path_exists(f"/{name}")
    zk.get_all_topics_in_cluster(register_watch=True)
    zk.get_topic_deletions()
    session_id = zk.session_id
    cuttable_proxy.cut()
    wait_until(lambda: not zk.is_connected)
    other.set_or_create("/made", b"")
    other.delete_recursive("/gone")
    other.set_or_create("/set", b"new")
    other.set_or_create("/brokers/topics/t", b"{}")
    cuttable_proxy.heal()
    assert {told.get(timeout=60) for _ in range(4)} == {
        "topics",
        "made created",
        "gone deleted",
        "set changed",
    }
    assert zk.session_id == session_id
    other.set_or_create("/same", b"new")
    assert told.get(timeout=60) == "same changed", "the watches are armed again"
    assert told.empty()


def test_requests_wait_out_a_disconnection(connect, cuttable_proxy, wait_until):
    zk = connect(cuttable_proxy.address)
    cuttable_proxy.cut()
    wait_until(lambda: not zk.is_connected)
    answers: SimpleQueue[object] = SimpleQueue()
    thread = threading.Thread(target=lambda: answers.put(zk.get_all_topics_in_cluster()))
    thread.start()
    thread.join(0.3)
    assert thread.is_alive()
    cuttable_proxy.heal()
    assert answers.get(timeout=60) == set()
    thread.join()


def test_expiry_fails_requests_then_tells_then_begins_a_new_session(
    connect, cuttable_proxy, end_session, wait_until
):
    zk, other = connect(cuttable_proxy.address), connect()
    events: SimpleQueue[str] = SimpleQueue()
    may_continue = threading.Event()

    def before() -> None:
        events.put("before")
        may_continue.wait(60)

    zk.register_state_change_handler(StateHandler(before, lambda: events.put("after")))
    other.set_or_create("/x", b"")
    zk.register_broker(Broker(1, ()))

    def request() -> None:
        try:
            zk.path_exists("/x")
        except SessionExpired:
            events.put("failed")

    old_session = zk.session_id
    cuttable_proxy.cut()
    wait_until(lambda: not zk.is_connected)
    thread = threading.Thread(target=request)
    thread.start()
    end_session(zk)
    wait_until(lambda: not other.path_exists("/brokers/ids/1"))
    assert events.empty(), "nobody can know yet"
    cuttable_proxy.heal()
    assert {events.get(timeout=60), events.get(timeout=60)} == {"failed", "before"}
    assert not zk.is_connected
    with pytest.raises(SessionExpired):
        zk.path_exists("/x")
    may_continue.set()
    assert events.get(timeout=60) == "after"
    assert zk.session_id != old_session
    assert zk.path_exists("/x")
    thread.join()


def test_closed(connect):
    zk = connect()
    zk.close()
    zk.close()
    with pytest.raises(SessionClosed):
        zk.path_exists("/x")
