# One gateway. State of its own in /state, workspaces in /workspaces (shared by all nodes of a cluster).
#   docker build -t openclaw-py . && docker run -p 18789:18789 -v openclaw-state:/state openclaw-py
FROM python:3.13-slim

RUN apt-get update && apt-get install -y --no-install-recommends git bubblewrap \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 openclaw \
    && mkdir /state /workspaces && chown openclaw:openclaw /state /workspaces && chmod 700 /state

COPY pyproject.toml README.md LICENSE /src/
COPY src /src/src
RUN pip install --no-cache-dir "/src[postgres]" && rm -rf /src

USER openclaw
ENV OPENCLAW_STATE_DIR=/state
VOLUME ["/state", "/workspaces"]
EXPOSE 18789
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s CMD ["openclaw", "gateway", "status"]
ENTRYPOINT ["openclaw"]
CMD ["gateway", "run", "--bind", "lan"]
