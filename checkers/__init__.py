"""What must hold, judged from a stored history: pure functions from evidence to verdicts, in Spark.

    run.json + history/f=<kind>/...   what was asked, and what happened
        -> frames.History             one typed frame a kind
        -> check.check_all            every check of the run, each (arm, trial) apart
        -> verdict.Results            valid | invalid | unknown, with witnesses and figures
        -> results.json, results/*.parquet

Map of the package:

    history             the schema: what one row of evidence says
    run_info            run.json, read and validated
    frames, store       loading a history from a folder or any URI that Hadoop can read
    session             Spark, tuned for tiny and for large histories
    check               runs the checks; a checker that crashes makes its check `unknown`
    verdict, outcome    the three verdicts and their merge; what one check hands over
    witness             the few rows that prove a violation, in order of time
    compare             ratios between arms

    activity            did anything happen at all?
    stale_metadata      who was told about a leader that was no longer one?
    truncation_loss     what was acknowledged and is gone?
    controller_latency  where did controller requests wait?
    fencing             was anything accepted from a controller or leader of the past?
    availability        how long was a partition without a leader that serves?
    log                 Jepsen's Kafka anomalies, and agreement of the replicas

    leadership, lives, segments, histogram, accounts, disputes
                        what several checks share

Importing this package is cheap: Spark is imported by the modules that need it.
"""
