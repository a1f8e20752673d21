"""What a coordinator tells members of their group, held against what they told it themselves.

For who plays all members of a group (`harness.workload.group_pair`) and knows what there is to be
told: each member subscribes to the same, and its leader assigns to each what says whom it is for.
Each function returns, in words, what is told otherwise, and "" where nothing is.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any


def subscription(topic: str) -> bytes:
    """ConsumerProtocolSubscription 0: that topic, and nothing of its own. What has no form may not
    be said by who joins as a "consumer": coordinators read it (GroupMetadata.
    computeSubscribedTopics), and that of 2.8.0 and 2.8.1 dies of it (CVE-2022-34917)."""
    name = topic.encode()
    return b"\0\0\0\0\0\1" + len(name).to_bytes(2, "big") + name + b"\xff\xff\xff\xff"


def of_join(answer: Any, asked_as: str, subscribed: bytes) -> str:
    """``asked_as``: the id that the member gave, if any. The leader alone is told who the members
    are, and what each subscribes to: by that it assigns (GroupCoordinator.onCompleteJoin)."""
    own, leader = str(answer.member_id), str(answer.leader)
    members = {str(one.member_id): bytes(one.metadata) for one in answer.members}
    if asked_as and own != asked_as:
        return f"member {asked_as} is called {own}"
    if not leader:
        return "nobody leads"
    if own != leader:
        return f"member {own} is told who the members are, and {leader} leads" if members else ""
    if own not in members:
        return f"member {own} leads, and is not among {sorted(members)}"
    strange = sorted(name for name, said in members.items() if said != subscribed)
    return f"another subscription of {strange[0]}" if strange else ""


def of_sync(answer: Any, own: str, *, leads: bool) -> str:
    """What the leader gave to ``own`` is its name; others it may not have known."""
    return _assigned(own, bytes(answer.assignment), known=leads)


def of_description(
    group: Any, client_id: str, own: str, subscribed: bytes, protocols: Collection[str]
) -> str:
    """Of a stable group in which ``own`` is: each member has what was given to it (DescribeGroups,
    GroupMetadata.summary). Who is not named any more was thrown out, which is judged by itself."""
    for one in group.members:
        name, client = str(one.member_id), str(one.client_id)
        if client != client_id:
            return f"client {client!r} of {name}"
        if bytes(one.member_metadata) != subscribed:
            return f"another subscription of {name}"
        said = _assigned(name, bytes(one.member_assignment), known=name == own)
        if said:
            return said
    if str(group.protocol_type) != "consumer" or str(group.protocol_data) not in protocols:
        return f"protocol {group.protocol_data!r} of type {group.protocol_type!r}"
    return ""


def of_instances(group: Any, instance: str) -> str:
    """Of a stable group whose members are all one instance (KIP-345)."""
    for one in group.members:
        if one.group_instance_id != instance:
            return f"instance {one.group_instance_id!r} of {one.member_id}"
    return ""


def _assigned(name: str, given: bytes, *, known: bool) -> str:
    if given == name.encode() or (not given and not known):
        return ""
    return f"{given!r} is given to {name}" if given else f"nothing is given to {name}"
