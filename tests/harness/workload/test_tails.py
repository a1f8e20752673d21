"""What is asked of a leader by one who waits where logs end."""

from __future__ import annotations

from harness.workload.tails import BESIDE_MS, MAX_WAIT_MS, Tails

A, B = ("t", 0), ("t", 1)
MOST = 64 * 1024
OF_ALL = {"max_bytes": MOST, "partition_max_bytes": MOST}


def read(epoch: int, offset: int) -> dict[str, int]:
    return {"believed_epoch": epoch, "offset": offset, **OF_ALL}


def test_a_broker_is_asked_of_what_it_leads_a_little_before_its_end_in_turn() -> None:
    tails = Tails()
    assert tails.begin(1) == {}
    tails.told(A, 1, 3, 100)
    tails.told(B, 1, 2, 2)
    assert [tails.begin(1) for _ in range(3)] == [
        {A: read(3, 95)},
        {B: read(2, 0)},
        {A: read(3, 95)},
    ]
    assert tails.begin(2) == {}


def test_after_that_it_is_waited_for_what_comes_behind_mostly_for_a_record() -> None:
    tails = Tails()
    tails.told(A, 1, 3, 100)
    asked = tails.begin(1)[A]
    given = {"found_end": 104, "high_watermark": 104}
    wait = tails.go_on(A, asked, given)
    assert wait == {A: {**read(3, 104), "max_wait_ms": MAX_WAIT_MS, "min_bytes": 1}}
    least = [tails.go_on(A, asked, given)[A]["min_bytes"] for _ in range(5)]
    assert least == [1, 2_000, 1, 1, 2_000]
    assert tails.begin(1) == {A: read(3, 99)}, "from what is known by then"


def test_of_who_gave_nothing_it_is_waited_for_what_comes_behind_its_high_watermark() -> None:
    tails = Tails()
    tails.told(A, 1, 3, 0)
    wait = tails.go_on(A, tails.begin(1)[A], {"found_end": -1, "high_watermark": 0})
    assert wait[A]["offset"] == 0
    assert tails.begin(1) == {A: read(3, 0)}


def test_who_led_before_is_asked_no_more_and_what_it_gives_goes_on_nowhere() -> None:
    tails = Tails()
    tails.told(A, 1, 3, 100)
    asked = tails.begin(1)[A]
    tails.told(A, 2, 4, 90)
    tails.told(A, 1, 3, 120)
    assert tails.go_on(A, asked, {"found_end": 110, "high_watermark": 110}) == {}
    assert tails.begin(1) == {}
    assert tails.begin(2) == {A: read(4, 85)}
    tails.told(A, 2, 4, 80)
    assert tails.begin(2) == {A: read(4, 85)}, "an older answer, which came later"


def test_beside_a_partition_of_another_topic_it_waits_for_either_and_names_that_one_first() -> None:
    silent, other, elsewhere = ("s", 0), ("s", 1), ("u", 0)
    tails = Tails()
    tails.told(A, 1, 3, 100)
    tails.told(B, 1, 3, 50)
    tails.told(elsewhere, 2, 1, 9)
    given = {"found_end": 104, "high_watermark": 104}
    assert list(tails.go_on(A, read(3, 95), given)) == [A]
    tails.told(silent, 1, 7, 2)
    tails.told(other, 1, 8, 0)
    asked = [tails.go_on(A, read(3, 95), given) for _ in range(3)]
    assert [list(each) for each in asked] == [[other, A], [silent, A], [other, A]]
    wait = {"max_wait_ms": BESIDE_MS, "min_bytes": 2_000}
    assert asked[1] == {silent: {**read(7, 2), **wait}, A: {**read(3, 104), **wait}}
    assert tails.begin(1) == {A: read(3, 99)}, "one at a time"
