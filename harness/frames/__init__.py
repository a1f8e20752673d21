"""Faults that know Kafka's frames: a proxy behind toxiproxy's, for single requests and answers.

    client ──▶ toxiproxy (bytes) ──▶ frame proxy (requests, answers) ──▶ listener

rules      which frames a rule means, and how often: pure
wire       the few fields of a frame that rules ask for, and answers that are errors: pure
addresses  answers that tell where brokers are, with other addresses in them: pure
proxy      the process: routes, connections, its control socket
client     the harness's side of that socket; `faults.protocol.Frames`

It is in the way only in runs whose plan needs it, and of clusters that advertise addresses which no
proxy has (`harness.sut.external`).
"""
