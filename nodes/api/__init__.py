"""One request family a module; `KafkaApis` dispatches to them."""
