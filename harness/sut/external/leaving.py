"""Leaving a cluster as it was: brokers that were ended or paused go on, topics and groups with a
run's token in their names go.

By a run at its end (`harness.cluster.external`), and by ``biplane clean`` for a harness that was
killed and has left a record (`owed`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from faults.protocol import FaultFailed
from harness.cluster.ask import METADATA_VERSION, NoAnswer, ask, error_name, request
from harness.runtime.protocol import Address
from harness.sut.description_file import DescriptionError
from harness.sut.external.form import ClusterForm, command_of, parse_cluster
from harness.sut.external.owed import Debt, debts
from harness.sut.external.ways import AGAIN_S, Sign, run_command, sign_of_life
from nodes.wire.apis import ApiKey

_ASK_TIMEOUT_S: Final = 5.0
_WITHIN_S: Final = 60.0
_PAUSE_S: Final = 0.2
_GONE: Final = 3  # UNKNOWN_TOPIC_OR_PARTITION
_NOT_CONTROLLER: Final = 41
_NO_GROUP: Final = 69  # GROUP_ID_NOT_FOUND


def delete_topics(form: ClusterForm, token: str, *, once: bool = False) -> list[str]:
    """Delete every topic and group with the token in its name; returns once no broker shows such a
    topic any more. ``once``: whoever does not answer now is not waited for. What could not be done,
    in words."""
    assert token, "every name has an empty one"
    deadline = time.monotonic() + (0 if once else _WITHIN_S)
    why = "no broker answers"
    while True:
        left: set[str] = set()
        controller = -1
        answered = 0
        for node in form.ids:
            try:
                metadata = _metadata(form.address(node))
            except NoAnswer as error:
                why = str(error)
                continue
            answered += 1
            left |= {str(t.name) for t in metadata.topics if token in str(t.name)}
            controller = int(metadata.controller_id)
        groups = _delete_groups(form, token)
        if not left and not groups and answered == len(form.ids):
            return []
        if left and controller in form.ids:
            why = _ask_to_delete(form.address(controller), sorted(left)) or why
        if time.monotonic() > deadline:
            names = ", ".join(sorted(left)) or "it is not known which"
            topics = [f"topics are left ({names}): {why}"] if left or not groups else []
            return [*groups, *topics]
        time.sleep(_PAUSE_S)


def _metadata(address: Address) -> Any:
    entity = request(
        ApiKey.METADATA, METADATA_VERSION, topics=None, allow_auto_topic_creation=False
    )
    return ask(address, entity, _ASK_TIMEOUT_S)


def _ask_to_delete(address: Address, topics: list[str]) -> str | None:
    entity = request(ApiKey.DELETE_TOPICS, 3, topic_names=topics, timeout=5000)
    try:
        answer = ask(address, entity, 2 * _ASK_TIMEOUT_S)
    except NoAnswer as error:
        return str(error)
    bad = [r for r in answer.responses if int(r.error_code) not in (0, _GONE, _NOT_CONTROLLER)]
    return f"{bad[0].name}: {error_name(int(bad[0].error_code))}" if bad else None


def _delete_groups(form: ClusterForm, token: str) -> list[str]:
    """Each broker knows those that it coordinates. Which are left, and why: one whose members were
    killed is not empty before its session ends. Where there is no such request, groups without
    topics go by themselves."""
    left = []
    for node in form.ids:
        address = form.address(node)
        try:
            listed = ask(address, request(ApiKey.LIST_GROUPS, 0), _ASK_TIMEOUT_S)
            own = [str(g.group_id) for g in listed.groups if token in str(g.group_id)]
            if not own:
                continue
            entity = request(ApiKey.DELETE_GROUPS, 0, groups_names=own)
            answer = ask(address, entity, _ASK_TIMEOUT_S)
        except NoAnswer:
            continue
        left += [
            f"group {r.group_id} is left: {error_name(int(r.error_code))}"
            for r in answer.results
            if int(r.error_code) not in (0, _NO_GROUP)
        ]
    return left


# -- for a harness that is gone -------------------------------------------------------------------


def pay(folder: Path) -> Iterator[str]:
    """Undo what killed harnesses left undone; a line for each thing done, or not done."""
    for debt in debts(folder):
        yield from _pay(debt)


def _pay(debt: Debt) -> Iterator[str]:
    try:
        form = parse_cluster(debt.text.encode(), str(debt.file))
    except DescriptionError as error:
        yield f"not restored: {error}"
        return
    paid = True
    log = debt.path.with_suffix(".log")
    for node, command in sorted(debt.brokers.items()):
        argv = command_of(form, command, node, debt.file.parent)
        try:
            if argv is None:
                raise FaultFailed(f"no command for {command!r}")
            _until_it_answers(form, node, argv, log)
            yield f"{form.name}: broker {node}: {command}"
        except FaultFailed as error:
            paid = False
            yield f"{form.name}: broker {node} is not restored: {error}"
    if debt.topics and paid:
        failed = delete_topics(form, debt.token)
        paid = not failed
        yield from (f"{form.name}: {why}" for why in failed)
        if paid:
            yield f"{form.name}: deleted topics {debt.token}-*"
    if paid:
        debt.path.unlink(missing_ok=True)
        log.unlink(missing_ok=True)


def _until_it_answers(form: ClusterForm, node: int, argv: tuple[str, ...], log: Path) -> None:
    """Again and again, as `ways.BrokerHandle.restore` does. Raises `FaultFailed`."""
    within_s = form.ways.within_s
    deadline = time.monotonic() + within_s
    while True:
        run_command(argv, env=form.ways.env, within_s=within_s, log=log)
        again = time.monotonic() + AGAIN_S
        while time.monotonic() < again:
            if sign_of_life(form.address(node)) is Sign.ANSWERS:
                return
            if time.monotonic() > deadline:
                raise FaultFailed(f"it does not answer within {within_s:g} s")
            time.sleep(_PAUSE_S)
