"""Apache Kafka's own command-line tools against a cluster (`python -m harness.studies.tools`)."""
