# The broker's image: a Python, what `nodes` imports (the group of that name in pyproject.toml), and
# the broker itself. `make image` builds it, with the other two; by hand:
#   docker build -t biplane-node .
#   docker build -t biplane-node --build-arg BASE=biplane-base:bookworm \
#                --build-arg PIP_ARGS="--no-index --find-links=/wheels" .
# BASE needs Python >= 3.11 with venv, and nothing else. Serves the classic builder and BuildKit.
ARG BASE=python:3.12-slim

# Only a change of the group itself makes the packages' layer anew, not every one of pyproject.toml.
FROM ${BASE} AS requirements
COPY pyproject.toml /
RUN python3 -c "import tomllib; print(*tomllib.load(open('/pyproject.toml', 'rb'))['project']['optional-dependencies']['nodes'], sep='\n')" > /requirements.txt

FROM ${BASE} AS packages
ARG PIP_ARGS=""
COPY wheels/ /wheels/
COPY --from=requirements /requirements.txt /
RUN python3 -m venv /opt/app \
 && /opt/app/bin/pip install --no-cache-dir --disable-pip-version-check ${PIP_ARGS} -r /requirements.txt \
 && /opt/app/bin/pip uninstall --yes --quiet pip setuptools

FROM ${BASE}
RUN groupadd -g 10001 app && useradd -r -u 10001 -g 10001 -M -d /nonexistent app \
 && mkdir /data && chown 10001:10001 /data
COPY --from=packages /opt/app /opt/app
COPY containers/healthcheck.py /opt/biplane/
COPY nodes/ /opt/biplane/nodes/
# The root is read-only when it runs: what is not compiled now would be compiled at every start.
RUN /opt/app/bin/python -m compileall -q /opt/biplane
ENV PATH=/opt/app/bin:$PATH PYTHONPATH=/opt/biplane PYTHONUNBUFFERED=1 PYTHONSAFEPATH=1
USER 10001:10001
# A controlled shutdown: the broker moves its leaderships away first. With an init as PID 1
# (docker run --init), or the signal is lost before the broker handles it.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 \
    CMD ["/opt/app/bin/python", "/opt/biplane/healthcheck.py", "/etc/biplane/server.properties"]
CMD ["python", "-m", "nodes", "/etc/biplane/server.properties"]
