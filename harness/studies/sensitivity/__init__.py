"""`biplane sensitivity`: mutation testing of the evidence.

breaking   copies of a kind's rows in which one column says something else
columns    which columns no broker and no witness says
groups     many broken copies of a recorded trial as one history, judged in one go
judging    what came of each trial by itself
reasons    why some lies that nobody notices harm nobody
study      which copies, in which order, and what was judged before
kept       docs/sensitivity.jsonl, which the page is made from
page       docs/sensitivity.md
"""
