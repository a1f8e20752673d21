"""Kafka's wire protocol: entities, frames, record batches and a blocking client.

`apis` says what is served, `codec` turns frames into entities and back, `records` is the record
batch, `produce_codec` and `fetch_codec` are the hot answers, `client` is one connection.
"""
