"""What must hold, judged from a stored history: pure functions from evidence to verdicts, in Spark.

    run.json + history/f=<kind>/...   what was asked, and what happened
        -> history.frames.History     one typed frame a kind
        -> facts                      leadership, lives, cuts, accounts: what promises share
        -> promises                   one a module: findings, evidence, excuses
        -> judging.verdict.Results    valid | invalid | unknown, with witnesses and figures
        -> results.json, results/*.parquet

    check   runs the promises' checks; one that crashes is `unknown`
    spark   Spark, tuned for tiny and for large histories

Somebody with a new rule: the promise that it belongs to (`checkers.promises`), and its test.
Importing this package is cheap: Spark is imported by the modules that need it.
"""
