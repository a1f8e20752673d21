"""How requests come in and answers go out: planes, network threads, queues, handlers (KIP-291)."""
