"""Runs over time: the store as one table, what changed in it, and a page to look at it.

rows       one run's folder as rows of the table, one an arm
index      the table: STORE/runs.parquet, appended by every run, rebuilt from folders at any time
machine    what a run was played on, and of which commit
rank_test  the statistical test, a pure function
trend      which figures and verdicts changed against the runs before
ci         what a CI keeps of a session: properties, step summary, artefacts
page       the table, the trends and links to reports as one static page
serve      the same on loopback, made anew at each look
"""
