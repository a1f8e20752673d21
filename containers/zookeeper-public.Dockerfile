# The public ZooKeeper image with its jars where the local one has them, whatever its version. Its own
# /data is a volume that belongs to another user, and an owner given here would be lost: /zookeeper.
ARG BASE=zookeeper:3.9
FROM ${BASE}
USER root
RUN mkdir -p /opt/zookeeper && ln -s /apache-zookeeper-*/lib/*.jar /opt/zookeeper/ \
 && rm -f /opt/zookeeper/logback-*.jar \
 && mkdir /zookeeper && chown 10001:10001 /zookeeper
USER 10001:10001
ENTRYPOINT []
CMD ["java", "-cp", "/opt/zookeeper/*", "org.apache.zookeeper.server.quorum.QuorumPeerMain", "/etc/biplane/zookeeper.properties"]
