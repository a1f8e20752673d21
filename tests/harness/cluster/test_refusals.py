"""What is refused in the newest version of a request is refused in all others, with that error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import pytest
from crc32c import crc32c

from harness.cluster import refusals, versions
from harness.cluster.refusals import refused
from harness.cluster.versions import SAME, Question, compared
from nodes.wire.apis import SUPPORTED, ApiKey, response_class
from nodes.wire.build import build
from nodes.wire.records import CRC_FROM, read_header

AT = ("127.0.0.1", 1)
SERVED = {int(api): bounds for api, bounds in SUPPORTED.items()}
GROUPS = {refusals.OWN: "g", refusals.ANOTHERS: "h"}
NOT_COORDINATOR = 16


def question(api: ApiKey) -> Question:
    return next(one for one in refused(SERVED, GROUPS, [("t", 0)], [("u", 0)]) if one.api is api)


class Talk:
    """Stands for a connection; ``rows``: what it says beside each partition, by version; ``top``:
    what it says above all."""

    def __init__(self, rows: Mapping[int, int], top: int = NOT_COORDINATOR) -> None:
        self.rows, self.top = rows, top

    def __call__(self, *_: Any) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None: ...

    def request(self, entity: Any) -> Any:
        version = entity.__version__
        at = {"partition_index": 0, "committed_offset": -1, "error_code": self.rows.get(version, 0)}
        topics = [{"name": "t", "partitions": [at]}] if version in self.rows else []
        fields: dict[str, Any] = {"topics": topics, "error_code": self.top}
        if version >= 8:
            fields = {"groups": [{"group_id": "h", **fields}]}
        return build(response_class(ApiKey.OFFSET_FETCH, version), **fields)


def told(monkeypatch: pytest.MonkeyPatch, talk: Talk) -> dict[str, str]:
    monkeypatch.setattr(versions, "Connection", talk)
    return {how: says for how, says, _ in compared(question(ApiKey.OFFSET_FETCH), AT)}


def test_an_old_client_reads_the_error_beside_what_it_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = told(monkeypatch, Talk({1: NOT_COORDINATOR}))
    assert found == {f"version {v}": SAME for v in range(1, 8)}


@pytest.mark.parametrize("rows", [{}, {1: 0}], ids=["nothing", "no error"])
def test_who_is_told_no_error_is_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, rows: Mapping[int, int]
) -> None:
    found = told(monkeypatch, Talk(rows))
    assert found.pop("version 1") == "errors: no error, and in the newest not_coordinator"
    assert set(found.values()) == {SAME}


def test_another_error_is_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    found = told(monkeypatch, Talk({1: 15}))
    assert found["version 1"].startswith("errors: coordinator_not_available")


def test_what_is_asked_in_one_version_alone_is_left_out() -> None:
    served = {**SERVED, int(ApiKey.OFFSET_FETCH): (5, 5)}
    assert ApiKey.OFFSET_FETCH not in {
        one.api for one in refused(served, GROUPS, [("t", 0)], [("u", 0)])
    }
    forms = question(ApiKey.FETCH).forms
    assert [form.version for form in forms] == list(range(12, 3, -1))  # by name


def test_nothing_is_done_by_it() -> None:
    for one in refused(SERVED, GROUPS, [("t", 0)], [("u", 0)]):
        assert one.refused
        fields: Mapping[str, Any] = one.forms[0].fields
        assert all(form.fields is fields for form in one.forms)
        match one.api:
            case ApiKey.PRODUCE:
                (topic,) = fields["topic_data"]
                batch = topic["partition_data"][0]["records"]
                assert crc32c(batch[CRC_FROM:]) != read_header(batch).crc
            case ApiKey.CREATE_TOPICS | ApiKey.CREATE_PARTITIONS:
                assert fields["validate_only"]
            case ApiKey.DELETE_TOPICS:
                assert fields["topic_names"] == [versions.NEVER_MADE]
            case ApiKey.DELETE_RECORDS:
                assert fields["topics"][0]["partitions"][0]["offset"] == refusals._BEYOND
            case ApiKey.OFFSET_COMMIT:
                # Who commits for a generation is a member, or refused: no group is made by it.
                assert fields["generation_id_or_member_epoch"] > 0
    assert ApiKey.JOIN_GROUP not in {api for api, _ in asked_of(GROUPS)}


def test_a_member_is_asked_about_at_either_coordinator() -> None:
    asked = asked_of(GROUPS)
    for whose in GROUPS:
        assert (ApiKey.LEAVE_GROUP, f"refused: a member of a group of {whose}") in asked
    assert not any("own" in about for _, about in asked_of({refusals.ANOTHERS: "h"}))


def asked_of(groups: Mapping[str, str]) -> list[tuple[ApiKey, str]]:
    return [(one.api, one.about) for one in refused(SERVED, groups, [], [])]
