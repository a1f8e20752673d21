"""All that a controller does, in order (`scenarios`), line by line as Kafka 3.9 does it."""

from __future__ import annotations

import logging
import re
from collections import Counter

import pytest

from tests.nodes.controller.scenarios import ALL
from tests.nodes.controller.transcript import Office
from tests.scenarios import expected, play

COMPLAINTS = {
    "brokers: comes_back": {"unled t-2 (offline)": 1},
    "brokers: comes_back_alone_in_the_isr": {"unled t-0 (offline)": 2},
    "brokers: goes_when_something_can_be_led_again": {"unled t-0 (offline)": 2},
    "brokers: goes": {"unled t-2 (offline)": 1},
    "brokers: goes_from_a_new_partition": {"dead t-0: (3,)": 2, "unled t-1 (offline)": 1},
    "brokers: two_go_at_once": {"unled t-1 (offline)": 1},
    "brokers: bounces": {"unled t-2 (offline)": 1},
    "disks: loses_a_disk": {"unled t-2 (offline)": 1},
    "brokers: nobody_can_take_over": {"unled t-0 (controlled shutdown)": 3},
    "brokers: two_take_their_leave": {
        "unled t-1 (controlled shutdown)": 1,
        "dead u-0: (3, 2)": 1,
    },
    "brokers: takes_its_leave_from_what_has_no_leader": {"dead u-0: (3, 2)": 1},
    "topics: is_made_of_dead_replicas": {"dead t-1: (3, 4)": 1},
    "topics: grows_while_it_dies": {
        "Skipping adding partitions [TopicPartition(topic='t', partition=1)]: their topic is being "
        "deleted": 1
    },
    "topics: a_topic_that_is_not_there_goes": {
        "Ignoring request to delete non-existing topics ['nowhere']": 2
    },
    "topics: goes_while_it_moves": {"t-0 on 2 from NON_EXISTENT to DELETION_SUCCESSFUL": 1},
    "elections: preferred_that_cannot_be": {
        "unled t-0 (preferred replica)": 1,
        "unled t-1 (preferred replica)": 1,
    },
    "elections: unclean": {
        "unled t-3 (offline)": 2,
        "unled t-0 (offline)": 2,
        "unled t-1 (offline)": 3,
    },
    "elections: unclean_for_who_takes_its_leave": {"unled t-0 (controlled shutdown)": 1},
    "elections: unclean_where_it_is_allowed": {"unled u-0 (offline)": 2, "unled t-0 (offline)": 2},
    "elections: unclean_by_the_brokers_configuration": {
        "unled u-0 (offline)": 2,
        "unled t-0 (offline)": 1,
    },
    "elections: by_itself": {"unled t-2 (offline)": 1},
    "elections: by_itself_up_to_the_limit": {"unled t-1 (offline)": 1},
    "moves: its_new_replica_dies_and_is_back": {"t-0 on 3 from ONLINE to NEW": 1},
    "moves: through_zookeeper": {
        "Failed reassignment through ZooKeeper: {TopicPartition(topic='t', partition=7)}": 1
    },
    "office: finds_a_dead_leader": {"unled t-2 (offline)": 1},
    "office: finds_new_topics": {"dead t-1: (1,)": 1},
    "office: finds_moves": {"dying-0 on 4 from ONLINE to NEW": 1, "t-0 on 4 from ONLINE to NEW": 1},
    "races: a_later_controller_wrote_the_states": {"soft t-0 9": 3, "soft on 3 t-0 9": 1},
    "office: it_fails_in_office_with_open_channels": {
        "Error while electing or becoming controller": 1
    },
    "office: it_fails_in_office": {"Error while electing or becoming controller": 2},
}
"""What an operator is warned of in each scenario, while it is made ready and after, abridged by
`SHORT`. In all others there is nothing to complain of."""
SHORT = (
    (r"Partition .*: Failed to elect leader for partition (.*)", r"unled \1"),
    (r"No assigned replica of (.*) is alive(: .*)", r"dead \1\2"),
    (
        r"Replica .*topic='(.*)', partition=(\d+)\), replica=(\d+)\) cannot go (.*)",
        r"\1-\2 on \3 \4",
    ),
    (
        r"Partition .*: The state of (\S+) was written .* epoch (\d+): .* soft failure",
        r"soft \1 \2",
    ),
    (r"Replica (\d+) of (\S+) stays: .*epoch (\d+): .* soft failure.*", r"soft on \1 \2 \3"),
)


@pytest.mark.parametrize("name", ALL)
def test_it_does_just_this(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert play(ALL[name], Office(monkeypatch)) == expected(ALL[name])
    complaints: Counter[str] = Counter()
    for record in caplog.records:
        text = record.getMessage()
        for pattern, short in SHORT:
            text = re.sub(f"^{pattern}$", short, text)
        complaints[text] += 1
    assert complaints == COMPLAINTS.get(name, {})


def test_who_is_elected_and_who_is_deposed_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """KafkaController's lines, by which an operator follows the controllership."""
    office = Office(monkeypatch)
    said: list[str] = []

    def take() -> list[str]:
        office.run()
        said[:] = [r.getMessage() for r in caplog.records if r.name.endswith("KafkaController")]
        caplog.clear()
        return said

    says = "[Controller id=1] "
    brokers = (
        "Newly added brokers: {}, deleted brokers: {}, bounced brokers: {}, all live brokers: {}"
    )
    with caplog.at_level(logging.INFO):
        made = office.start(2)
        elected = f"{says}1 successfully elected as the controller. Epoch incremented to "
        assert take()[0] == f"{elected}1 and epoch zk version is now 1"
        assert f"{says}Ready to serve as the new controller with epoch 1" in said
        office.join(3, 4)
        assert says + brokers.format("3,4", "", "", "1,2,3,4") in take()
        office.leave(2)
        assert says + brokers.format("", "2", "", "1,3,4") in take()
        office.join(2)
        take()
        office.leave(2)
        office.join(2)
        assert says + brokers.format("", "", "2", "1,2,3,4") in take()
        office.ask(made.controlled_shutdown, 3, -1)
        assert take() == [f"{says}Shutting down broker 3"]
        office.usurp(4)
        assert f"{says}Resigned" in take()
