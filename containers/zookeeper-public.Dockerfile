# The public ZooKeeper image with its jars where the local one has them, whatever its version.
ARG BASE=zookeeper:3.9
FROM ${BASE}
USER root
RUN mkdir -p /opt/zookeeper && ln -s /apache-zookeeper-*/lib/*.jar /opt/zookeeper/ \
 && rm -f /opt/zookeeper/logback-*.jar \
 && { [ -e /data ] || mkdir /data; } && chown 10001:10001 /data
USER 10001:10001
ENTRYPOINT []
CMD ["java", "-cp", "/opt/zookeeper/*", "org.apache.zookeeper.server.quorum.QuorumPeerMain", "/etc/biplane/zookeeper.properties"]
