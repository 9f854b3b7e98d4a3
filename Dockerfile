# The service from its wheel, with the Java that Spark needs for the copy and the verification:
#
#   make dist && docker build -t migrate:0.1.0 .
#   docker run --rm -e SOURCE_PASSWORD -e TARGET_PASSWORD -v "$PWD/migrate.yaml:/etc/migrate/migrate.yaml:ro" \
#     migrate:0.1.0 preflight
#
# The tests read this file and build no image from it. The wheel is compiled for the Python and the C library of the
# machine that built it: build it on Debian 12 (Python 3.11), or with COMPILE=0.
FROM python:3.11.13-slim-bookworm

RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --home-dir /var/lib/migrate --create-home migrate

COPY dist/ /tmp/dist/
RUN pip install --no-cache-dir --constraint /tmp/dist/constraints.txt /tmp/dist/migrate-*.whl && rm -rf /tmp/dist

ENV MIGRATE_CONFIG=/etc/migrate/migrate.yaml
USER migrate
# `run_dir` is relative to it: logs, and what Spark sets aside.
WORKDIR /var/lib/migrate
VOLUME /var/lib/migrate
STOPSIGNAL SIGTERM
ENTRYPOINT ["migrate"]
CMD ["--help"]
