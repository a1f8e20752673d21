"""What is already certain of a run that still goes on: findings seconds after they happened.

    tail.py      new whole lines of files that grow; which files a run has
    intake.py    rows by kind, held back until whatever could excuse them is known
    order.py     epochs that came after a newer one: fencing, metadata that went back (Spark)
    offsets.py   what was acknowledged against what consumers read, offset by offset (Spark)
    decided.py   what was committed and who acts on it: the promise `epochs`, as it stands
    figures.py   control latency and staleness of the last half minute (Spark)
    watch.py     one look after another; `live.jsonl`
    replay.py    a stored run, watched again and held against its verdict
    __main__.py  ``python -m checkers.live RUN``

A finding here is one that judging the whole history comes to as well, for it follows from rows that
exist and that no later row can take back. What a later row could take back (a loss that a late
consumer would still read, a broker that may yet converge) is left to the end.

Spark works in small batches over the tail of the live files, each folded into a state that does not
grow with the load. Structured Streaming was not used: its file source takes whole files only, so
that every row of these growing files would be written and read once more, and each of its batches
costs more in bookkeeping than the folds themselves (docs/live.md has the figures).
"""

from typing import Final

LIVE_FILE: Final = "live.jsonl"
"""In the run's folder."""
