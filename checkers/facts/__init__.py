"""What several promises share: facts drawn from the history, each with a docstring that says what
its rows or columns mean. A fact judges nothing.

    leadership   which leader epochs a partition went through, and when each was over
    committed    what was committed of each partition: by leader epoch, and at some time
    decisions    every partition's states one after the other, in each life of its topic
    office       who was controller, and since when
    answers      what brokers answered to readers of metadata, folded to what differs
    forgeries    what a forger made a broker believe, and until when
    calm         from when on a broker owes the truth
    calm_leaders who leads each partition then
    faults       each by all that its rows tell: whom it names, from when to when
    failings     brokers that failed a client, by their own answers
    lives        a broker's lives: what it knew ends with its process
    timeline     what held when: spans of time looked up for every row of a load
    trials       a trial's own rows
    tellers      which brokers wrote down anything of a kind
    segments     a trial's time cut where a fault begins or ends
    floods       on whom each flood lay, from when to when, and whether it lasted
    cuts         truncations, each with the demotion that led to it
    blocks       folding: a row for each block of 64 numbers instead of one for each
    log_blocks   final logs, folded by replica and block of offsets
    value_blocks values, folded: blocks of which nothing is odd
    accounts     what became of every value: offered, and found (or not) in the final log
    disputes     what every witness says of one offset
    control_requests control requests as brokers handled them and forgers had them answered
    epoch_bounds by epoch, when a broker knew it and when it was last told it
    replicas     every replica's log at the final read, beside its leader's
    after_healing what the cluster was like in the end, and what nothing can be held against
    topics       which topics are there in the end
    registrations when a broker's registration was gone
    clients      what each client did and was given, in all and since the last fault was healed
    questions    what clients asked that ask several things in turn, and whom
    histogram    latencies in logarithmic buckets
    spans        when a row really happened: its times, widened by their own error
    courses      what happens one after the other, and did not stand in that order
    whole_rows   what a row of each kind must say
    answerable   errors that Kafka can answer to each request
    deleted_records up to where records were deleted on request
    details      what the harness wrote beside an event
    standstills  trials in which the machine stood still, or its wall clock was set
    strain       trials in which its processors were wanted by many: patience with what is late
    told_numbers arithmetic on numbers that brokers tell
"""
