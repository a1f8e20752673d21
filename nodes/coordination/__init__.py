"""What a broker keeps in ZooKeeper: registrations, topics, partition states, configurations.

Start with `nodes.coordination.zk.KafkaZkClient`; the session under it is in
`nodes.coordination.session`, the znodes' paths and JSON in `nodes.coordination.znodes`.
"""
