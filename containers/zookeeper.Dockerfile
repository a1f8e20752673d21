# ZooKeeper from its few jars on the distribution's Java. Its class path is /opt/zookeeper/*, as in
# the image that is derived from the public one. Build context: a folder with jars/ in it.
# Also the image for brokers that are Java programs: their jars are mounted.
ARG BASE=debian:bookworm-slim
FROM ${BASE}
# A base without manual pages makes the JRE's installation fail: its link farm wants the folder.
RUN mkdir -p /usr/share/man/man1 \
 && apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
RUN groupadd -g 10001 app && useradd -r -u 10001 -g 10001 -M -d /nonexistent app \
 && mkdir /zookeeper && chown 10001:10001 /zookeeper
COPY jars/ /opt/zookeeper/
USER 10001:10001
CMD ["java", "-cp", "/opt/zookeeper/*", "org.apache.zookeeper.server.quorum.QuorumPeerMain", "/etc/biplane/zookeeper.properties"]
