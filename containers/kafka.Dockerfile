# Apache Kafka's jars where --runtime=docker looks for them. BASE is the public image, which has
# them, or one with a Java, and then libs/ holds them. Build context: a folder with libs/ in it.
ARG BASE=apache/kafka:3.9.2
FROM ${BASE}
ARG VERSION
COPY libs/ /opt/kafka/libs/
LABEL biplane.software=kafka biplane.software.version=${VERSION} biplane.software.path=/opt/kafka/libs
USER 10001:10001
ENTRYPOINT []
CMD ["java", "-cp", "/opt/kafka/libs/*", "kafka.Kafka"]
