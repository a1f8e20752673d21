"""What a broker does that is ordered to lead, to follow and to stop (ReplicaManager's
becomeLeaderOrFollower, makeLeaders, makeFollowers, stopReplicas; Partition.makeLeader,
makeFollower), and what it takes over of a leader's log (AbstractFetcherThread)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

from nodes.core.errors import Errors
from nodes.replication.model import FetchResult, ListOffsetResult
from tests.nodes.replication.desk import Desk, records


def lead(epoch: int = 0, **more: object) -> dict[str, object]:
    return {"leader": 1, "leader_epoch": epoch, **more}


def follow(leader: int = 2, epoch: int = 0, **more: object) -> dict[str, object]:
    return {"leader": leader, "leader_epoch": epoch, **more}


def leads_at_once(d: Desk) -> Iterator[None]:
    """Fetchers stop before it leads; who keeps something by leadership hears of it last.

    fetches no more t-0,t-1
    log + t-0
    leads t-0 epoch 0.5 from 0 isr 1,2,3 of 1,2,3 waits for 1,2,3 hw 0 end 0 by 1
    log + t-1
    leads t-1 epoch 0.5 from 0 isr 1 of 1 waits for 1 hw 0 end 0 by 1
    log + u-0
    follows 2 in u-0 epoch 0.5 hw 0 end 0 by 1
    fetches no more u-0
    wakes u-0
    fetches u-0 from 2 epoch 0 at 0 cut there
    thread + ReplicaFetcherThread-0-2
    checkpoints
    hears leads t-0 leads t-1 follows u-0
    answer NONE, t-0 NONE, t-1 NONE, u-0 NONE
    """
    yield
    d.leader_and_isr(lead(), lead(tp="t-1", isr=[1], replicas=[1]), follow(tp="u-0"))


def follows_at_once(d: Desk) -> Iterator[None]:
    """All roles are taken before the fetchers stop, waiting requests are answered before they start
    again; a log without epochs is cut at its high watermark.

    log + t-0
    follows 2 in t-0 epoch 0.5 hw 0 end 0 by 1
    log + t-1
    follows 3 in t-1 epoch 0.5 hw 0 end 0 by 1
    fetches no more t-0,t-1
    wakes t-0
    wakes t-1
    fetches t-0 from 2 epoch 0 at 0 cut there
    fetches t-1 from 3 epoch 0 at 0 cut there
    thread + ReplicaFetcherThread-0-2
    thread + ReplicaFetcherThread-0-3
    checkpoints
    hears follows t-0 follows t-1
    answer NONE, t-0 NONE, t-1 NONE
    """
    yield
    d.leader_and_isr(follow(), follow(3, tp="t-1"))


def leads_who_followed(d: Desk) -> Iterator[None]:
    """Its epoch begins where its log ends; what is committed it knows as far as it was told.

    fetches no more t-0
    leads t-0 epoch 1.6 from 3 isr 1,3 of 1,2,3 waits for 1,3 hw 1 end 3 by 1
    checkpoints
    thread - ReplicaFetcherThread-0-2
    hears leads t-0
    answer NONE, t-0 NONE
    epochs 0 from 0, 1 from 3
    """
    d.leader_and_isr(follow())
    d.says["t-0"] = FetchResult(0, 1, 1, 0, records(0, 0, 3))
    d.follow()
    yield
    d.leader_and_isr(lead(1, isr=[1, 3]))
    d.epochs()


def follows_who_led(d: Desk) -> Iterator[None]:
    """Who waits at it is answered NOT_LEADER_OR_FOLLOWER; it fetches from its end, for its leader
    to find where they part.

    wakes t-0
    follows 3 in t-0 epoch 1.6 hw 0 end 2 by 1
    fetches no more t-0
    wakes t-0
    fetched t-0 NOT_LEADER_OR_FOLLOWER
    produced t-0 NOT_LEADER_OR_FOLLOWER at 1
    fetches t-0 from 3 epoch 1 at 2
    thread + ReplicaFetcherThread-0-3
    checkpoints
    hears follows t-0
    answer NONE, t-0 NONE
    """
    d.leader_and_isr(lead())
    d.produce(acks=1)
    d.fetch(2, 0)
    yield
    d.produce()
    d.fetch(3, 2, max_wait_ms=1000)
    d.leader_and_isr(follow(3, 1))


def leads_again(d: Desk) -> Iterator[None]:
    """A new epoch, the same reign: positions are kept, appends are acknowledged, nobody who keeps
    something hears of it.

    fetches no more t-0
    leads t-0 epoch 1.6 from 1 isr 1,2 of 1,2,3 waits for 1,2 hw 1 end 1 by 1
    checkpoints
    answer NONE, t-0 NONE
    proposes t-0 epoch 1.6 isr 1,2,3
    fetched t-0 NONE hw 1 start 0 records nobody
    wakes t-0
    produced t-0 NONE at 1
    fetched t-0 NONE hw 1 start 0 records nobody
    """
    d.leader_and_isr(lead())
    d.produce(acks=1)
    for replica in (2, 3):
        d.fetch(replica, 1)
    yield
    d.leader_and_isr(lead(1, isr=[1, 2]))
    d.produce()
    d.fetch(3, 2)
    d.fetch(2, 2)


def leads_with_other_replicas(d: Desk) -> Iterator[None]:
    """Only those count, and may fetch: who is not assigned is told to look elsewhere, or, knowing
    the epoch, to wait.

    fetches no more t-0
    leads t-0 epoch 1.6 from 0 isr 1,2,4 of 1,2,4 adding 4 waits for 1,2,4 hw 0 end 0 by 1
    checkpoints
    answer NONE, t-0 NONE
    fetched t-0 NOT_LEADER_OR_FOLLOWER
    fetched t-0 UNKNOWN_LEADER_EPOCH
    wakes t-0
    fetched t-0 NONE hw 0 start 0 records nobody
    """
    d.leader_and_isr(lead())
    d.fetch(3, 0)
    yield
    d.leader_and_isr(lead(1, replicas=[1, 2, 4], isr=[1, 2, 4], adding_replicas=[4]))
    d.fetch(3, 0)
    d.fetch(3, 0, epoch=1)
    d.fetch(4, 0)


def a_leader_that_is_not_alive(d: Desk) -> Iterator[None]:
    """The partition stays what it is, without an error.

    checkpoints
    answer NONE, t-0 NONE
    checkpoints
    answer NONE, t-0 NONE
    follows 2 in t-0 epoch 0.5 hw 0 end 0 by 1
    """
    d.leader_and_isr(follow())
    yield
    d.leader_and_isr(follow(8, 1))
    d.leader_and_isr(follow(-1, 2))
    d.look()


def is_stopped(d: Desk) -> Iterator[None]:
    """It fetches no more; what it leads it leads on, as in Kafka.

    fetches no more t-0,t-1
    wakes t-0
    wakes t-1
    answer NONE, t-0 NONE, t-1 NONE
    leads t-0 epoch 0.5 from 0 isr 1,2,3 of 1,2,3 waits for 1,2,3 hw 0 end 2 by 1
    produced t-0 NONE at 2
    """
    d.leader_and_isr(lead(), follow(tp="t-1"))
    d.produce(acks=1)
    d.produce()
    yield
    d.stop_replica("t-0", "t-1")
    d.look()
    d.produce(acks=1)


def is_stopped_and_deleted(d: Desk) -> Iterator[None]:
    """Who waits is answered when the partition is gone and before its log goes; a partition without
    one is no error. A topic of its name may come again.

    fetches no more t-0,t-1,t-9
    forgets t-0: follows None in t-0 epoch 0.5 no log by 1
    wakes t-0
    fetched t-0 NOT_LEADER_OR_FOLLOWER
    produced t-0 NOT_LEADER_OR_FOLLOWER at 0
    forgets t-1: follows None in t-1 epoch 0.5 no log by 1
    wakes t-1
    wakes t-9
    log - t-0
    log - t-1
    answer NONE, t-0 NONE, t-1 NONE, t-9 NONE
    produced t-0 NOT_LEADER_OR_FOLLOWER at -1
    answer NONE deleted t-0
    produced t-0 UNKNOWN_TOPIC_OR_PARTITION at -1
    fetches no more t-0
    log + t-0
    leads t-0 epoch 0.5 from 0 isr 1,2,3 of 1,2,3 waits for 1,2,3 hw 0 end 0 by 1
    checkpoints
    thread - ReplicaFetcherThread-0-2
    hears leads t-0
    answer NONE, t-0 NONE
    """
    d.leader_and_isr(lead(), follow(tp="t-1"))
    d.metadata(("t-0", 1), ("t-1", 2))
    d.produce()
    d.fetch(3, 1, max_wait_ms=1000)
    yield
    d.stop_replica("t-0", "t-1", "t-9", leader_epoch=-2, delete=True)
    d.produce(acks=1)
    d.metadata(("t-0", -2))
    d.produce(acks=1)
    d.leader_and_isr(lead(), topic_id=uuid.UUID(int=8))


def follows_nobody_while_it_shuts_down(d: Desk) -> Iterator[None]:
    """makeFollowers: the role is taken, so that clients are sent on; only the fetcher is left out.

    log + t-0
    follows 2 in t-0 epoch 0.5 hw 0 end 0 by 1
    fetches no more t-0
    wakes t-0
    checkpoints
    hears follows t-0
    answer NONE, t-0 NONE
    """
    yield
    d.manager._shutting_down.set()
    d.leader_and_isr(follow())


# ---- a follower's rounds -------------------------------------------------------------------------


def takes_over_records(d: Desk) -> Iterator[None]:
    """The watermark is the leader's as far as the own log goes, down too; so is the log's start.

    asks 2 for t-0 at 0 epoch 0 last -1 start 0
    follows 2 in t-0 epoch 0.5 hw 0 end 2 by 1 next 2
    asks 2 for t-0 at 2 epoch 0 last 0 start 0
    follows 2 in t-0 epoch 0.5 hw 2 end 2 by 1 next 2
    asks 2 for t-0 at 2 epoch 0 last 0 start 0
    follows 2 in t-0 epoch 0.5 hw 1 end 3 by 1 next 3
    asks 2 for t-0 at 3 epoch 0 last 0 start 0
    follows 2 in t-0 epoch 0.5 hw 3 end 3 by 1 next 3
    asks 2 for t-0 at 3 epoch 0 last 0 start 2
    follows 2 in t-0 epoch 0.5 hw 3 end 3 by 1 next 3
    """
    d.leader_and_isr(follow())
    yield
    for said in (
        FetchResult(0, 0, 0, 0, records(0, 0, 2)),
        FetchResult(0, 2, 2, 0, b""),
        FetchResult(0, 1, 1, 0, records(0, 2)),
        FetchResult(0, 9, 9, 2, b""),
        FetchResult(0, 9, 9, 7, b""),
    ):
        d.says["t-0"] = said
        d.follow()


def cuts_where_its_leader_says(d: Desk) -> Iterator[None]:
    """By the largest epoch that both know, in as many rounds as it takes.

    epochs 0 from 0, 1 from 2, 3 from 4
    asks 3 for t-0 at 5 epoch 5 last 3 start 0
    cut t-0 epoch 5 from 5 to 4: diverging epoch
    follows 3 in t-0 epoch 5.10 hw 4 end 4 by 1 next 4
    asks 3 for t-0 at 4 epoch 5 last 1 start 0
    cut t-0 epoch 5 from 4 to 1: diverging epoch
    follows 3 in t-0 epoch 5.10 hw 1 end 1 by 1 next 1
    epochs 0 from 0
    """
    d.leader_and_isr(follow())
    for said in (records(0, 0, 2), records(1, 2, 2), records(3, 4)):
        end = int.from_bytes(said[:8], "big")
        d.says["t-0"] = FetchResult(0, end, end, 0, said)
        d.follow()
    d.leader_and_isr(follow(3, 5))
    yield
    d.epochs()
    d.says["t-0"] = FetchResult(0, 1, 1, 0, b"", -1, (2, 9))
    d.follow()
    d.says["t-0"] = FetchResult(0, 1, 1, 0, b"", -1, (0, 1))
    d.follow()
    d.epochs()


def an_answer_that_comes_too_late(d: Desk) -> Iterator[None]:
    """After an order for another epoch, or to stop, it is not applied.

    asks 2 for t-0 at 0 epoch 0 last -1 start 0
    follows 2 in t-0 epoch 1.6 hw 0 end 0 by 1
    fetches no more t-0
    wakes t-0
    fetches t-0 from 2 epoch 1 at 0 cut there
    checkpoints
    hears follows t-0
    answer NONE, t-0 NONE
    follows 2 in t-0 epoch 1.6 hw 0 end 0 by 1 next 0
    asks 2 for t-0 at 0 epoch 1 last -1 start 0
    fetches no more t-0
    wakes t-0
    answer NONE, t-0 NONE
    follows 2 in t-0 epoch 1.6 hw 0 end 0 by 1 no more
    follows 2 in t-0 epoch 1.6 hw 0 end 0 by 1
    """
    d.leader_and_isr(follow())
    d.says["t-0"] = FetchResult(0, 2, 2, 0, records(0, 0, 2))
    yield
    d.meanwhile = lambda: d.leader_and_isr(follow(epoch=1))
    d.follow()
    d.meanwhile = lambda: d.stop_replica("t-0")
    d.follow()
    d.look()


def answers_with_errors(d: Desk) -> Iterator[None]:
    """It rests, and asks again; who is fenced waits for an order.

    asks 2 for t-0 at 0 epoch 0 last -1 start 0
    follows 2 in t-0 epoch 0.5 hw 0 end 0 by 1 next 0 in 1000 ms
    asks 2 for t-0 at 0 epoch 0 last -1 start 0
    follows 2 in t-0 epoch 0.5 hw 0 end 0 by 1 next 0 in 1000 ms
    asks 2 for t-0 at 0 epoch 0 last -1 start 0
    follows 2 in t-0 epoch 0.5 hw 0 end 0 by 1 next 0 in 1000 ms
    asks 2 for t-0 at 0 epoch 0 last -1 start 0
    follows 2 in t-0 epoch 0.5 hw 0 end 0 by 1 next 0 in 1000 ms
    asks 2 for t-0 at 0 epoch 0 last -1 start 0
    follows 2 in t-0 epoch 0.5 hw 0 end 0 by 1 no more
    follows 2 in t-0 epoch 1.6 hw 0 end 0 by 1
    fetches no more t-0
    wakes t-0
    fetches t-0 from 2 epoch 1 at 0 cut there
    checkpoints
    hears follows t-0
    answer NONE, t-0 NONE
    """
    d.leader_and_isr(follow())
    yield
    for error in (
        Errors.NOT_LEADER_OR_FOLLOWER,
        Errors.UNKNOWN_LEADER_EPOCH,
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.KAFKA_STORAGE_ERROR,
        Errors.FENCED_LEADER_EPOCH,
    ):
        d.now_ms += 1000
        d.says["t-0"] = FetchResult(int(error))
        d.follow()
    d.leader_and_isr(follow(epoch=1))


def is_out_of_its_leaders_range(d: Desk) -> Iterator[None]:
    """Cut to the leader's end, or go on from its start; a start above all that it has empties the
    log.

    asks 2 for t-0 at 4 epoch 0 last 0 start 0
    asks 2 for the end of t-0 epoch 0
    cut t-0 epoch 0 from 4 to 3: offset out of range
    follows 2 in t-0 epoch 0.5 hw 2 end 3 by 1 next 3
    asks 2 for t-0 at 3 epoch 0 last 0 start 0
    asks 2 for the end of t-0 epoch 0
    asks 2 for the start of t-0 epoch 0
    follows 2 in t-0 epoch 0.5 hw 2 end 3 by 1 next 3
    asks 2 for t-0 at 3 epoch 0 last 0 start 0
    asks 2 for the end of t-0 epoch 0
    asks 2 for the start of t-0 epoch 0
    follows 2 in t-0 epoch 0.5 hw 2 end 3 by 1 next 3
    asks 2 for t-0 at 3 epoch 0 last 0 start 0
    asks 2 for the end of t-0 epoch 0
    asks 2 for the start of t-0 epoch 0
    cut t-0 epoch 0 from 3 to 0: log start offset of the leader is higher
    follows 2 in t-0 epoch 0.5 hw 7 end 7 by 1 next 7
    asks 2 for t-0 at 7 epoch 0 last -1 start 7
    asks 2 for the end of t-0 epoch 0
    follows 2 in t-0 epoch 0.5 hw 7 end 7 by 1 no more
    """
    d.leader_and_isr(follow())
    d.says["t-0"] = FetchResult(0, 2, 2, 0, records(0, 0, 4))
    d.follow()
    d.says["t-0"] = FetchResult(int(Errors.OFFSET_OUT_OF_RANGE))
    yield
    for end, start in ((3, 0), (9, 1), (3, 3), (9, 7)):
        d.ends = ListOffsetResult(0, -1, end, 0)
        d.starts = ListOffsetResult(0, -1, start, 0)
        d.follow()
    d.ends = ListOffsetResult(int(Errors.FENCED_LEADER_EPOCH))
    d.follow()


def follows_with_what_another_life_left(d: Desk) -> Iterator[None]:
    """The watermark is the checkpoint's.

    follows 3 in t-0 epoch 1.6 hw 2 end 4 by 1
    fetches no more t-0
    wakes t-0
    fetches t-0 from 3 epoch 1 at 4
    thread + ReplicaFetcherThread-0-3
    checkpoints
    hears follows t-0
    answer NONE, t-0 NONE
    epochs 0 from 0
    """
    d.leader_and_isr(follow())
    d.says["t-0"] = FetchResult(0, 2, 2, 0, records(0, 0, 4))
    d.follow()
    d.manager.checkpoint_high_watermarks()
    d.logs.close()
    d.boot()
    yield
    d.leader_and_isr(follow(3, 1))
    d.epochs()


def follows_without_epochs(d: Desk) -> Iterator[None]:
    """A leader cannot find where such a log parts from its own: it is cut at its watermark.

    follows 3 in t-0 epoch 1.6 hw 2 end 4 by 1
    fetches no more t-0
    wakes t-0
    fetches t-0 from 3 epoch 1 at 2 cut there
    thread + ReplicaFetcherThread-0-3
    checkpoints
    hears follows t-0
    answer NONE, t-0 NONE
    epochs none
    cut t-0 epoch 1 from 4 to 2: high watermark
    asks 3 for t-0 at 2 epoch 1 last -1 start 0
    follows 3 in t-0 epoch 1.6 hw 2 end 2 by 1 next 2
    """
    d.leader_and_isr(follow())
    d.says["t-0"] = FetchResult(0, 2, 2, 0, records(0, 0, 2))
    d.follow()
    d.says["t-0"] = FetchResult(0, 2, 2, 0, records(0, 2, 2))
    d.follow()
    d.manager.checkpoint_high_watermarks()
    d.logs.close()
    (d.folder / "t-0" / "leader-epoch-checkpoint").unlink()
    d.boot()
    yield
    d.leader_and_isr(follow(3, 1))
    d.epochs()
    d.says["t-0"] = FetchResult(0, 2, 2, 0, b"")
    d.follow()


def leads_with_what_another_life_left(d: Desk) -> Iterator[None]:
    """The new epoch begins at its end, and nothing above the checkpoint is shown.

    fetches no more t-0
    leads t-0 epoch 1.6 from 3 isr 1,2,3 of 1,2,3 waits for 1,2,3 hw 1 end 3 by 1
    checkpoints
    hears leads t-0
    answer NONE, t-0 NONE
    epochs 0 from 0, 1 from 3
    fetched t-0 NONE hw 1 start 0 records 0
    """
    d.leader_and_isr(lead())
    for _ in range(3):
        d.produce(acks=1)
    d.fetch(2, 2)
    d.fetch(3, 1)
    d.manager.checkpoint_high_watermarks()
    d.logs.close()
    d.boot()
    yield
    d.leader_and_isr(lead(1))
    d.epochs()
    d.fetch(-1, 0)
