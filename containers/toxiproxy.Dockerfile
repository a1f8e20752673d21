# toxiproxy's static binary and nothing else. Build context: a folder with toxiproxy-server in it.
FROM scratch
COPY toxiproxy-server /toxiproxy-server
USER 65534:65534
ENTRYPOINT ["/toxiproxy-server"]
CMD ["-host=0.0.0.0"]
