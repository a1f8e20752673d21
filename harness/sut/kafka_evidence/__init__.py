"""Apache Kafka's log4j files read as history rows.

lines         log4j lines, torn ones and continuations, and the tally of what was read
stamps        wall-clock milliseconds -> monotonic nanoseconds with their error
values        the text that Kafka's generated classes give of themselves
broker        server.log, controller.log
state_change  state-change.log
sends         control-sends.log
publishes     metadata.log: how far a broker's cache has come (Kafka 4)
requests      control-requests.log, control-receipts.log
reader        all of one node's files together
"""

from harness.sut.kafka_evidence.reader import read_evidence, read_kraft_evidence

__all__ = ["read_evidence", "read_kraft_evidence"]
