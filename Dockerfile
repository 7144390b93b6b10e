# Laminar in an image, for `laminar cluster manifests` and for trying it out.
#
#   docker build -t laminar .                                                       torchrun on Kubernetes, or one machine
#   docker build -t laminar:ray --build-arg EXTRAS=ray --build-arg PACKAGES='ray[default]' .     KubeRay submits jobs through the dashboard
#   docker build -t laminar:spark --target spark .                                  Spark on Kubernetes
#
# A project goes on top:  FROM laminar  and  COPY . /project
# torch for processors alone saves gigabytes: --build-arg PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu

ARG PYTHON_VERSION=3.12
ARG SPARK_VERSION=4.0.1

FROM python:${PYTHON_VERSION}-slim-bookworm AS wheel
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:${PYTHON_VERSION}-slim-bookworm AS base
# Extras of Laminar, comma-separated (s3,ssh,http …); further packages, separated by spaces; where pip looks besides PyPI.
ARG EXTRAS=""
ARG PACKAGES=""
ARG PIP_EXTRA_INDEX_URL=""
ENV PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# KubeRay asks by wget whether Ray's pods are well. Versions are those of the Debian release that the tag above names.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends wget \
    && rm -rf /var/lib/apt/lists/*
# Into the system's Python, not an environment of its own: KubeRay starts Ray from a login shell, which knows the usual places only.
# PACKAGES is split into words on purpose.
# hadolint ignore=DL3013,SC2086
RUN --mount=type=bind,from=wheel,source=/wheels,target=/wheels \
    pip install --no-cache-dir "$(echo /wheels/laminar_train-*.whl)${EXTRAS:+[${EXTRAS}]}" ${PACKAGES}
# The user and group that the manifests name.
RUN groupadd --gid 10001 laminar \
    && useradd --uid 10001 --gid 10001 --create-home laminar \
    && install --directory --owner laminar --group laminar /project /store
ENV LAMINAR_STORE=/store
WORKDIR /project

# What Spark needs in the pods of its driver and executors: Java, its own files, and its entry point, which starts either.
FROM spark:${SPARK_VERSION}-scala2.13-java17-python3-ubuntu AS spark-files

FROM base AS spark
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps tini \
    && rm -rf /var/lib/apt/lists/*
COPY --from=spark-files --chown=10001:10001 /opt/spark /opt/spark
COPY --from=spark-files /opt/entrypoint.sh /opt/entrypoint.sh
# What spark-submit runs. It opens the session that spark-submit describes; `--on spark` uses the one that is open.
RUN install --directory /opt/laminar \
    && printf '%s\n' 'from pyspark import SparkContext' 'from laminar.cli import main' 'SparkContext.getOrCreate()' 'main()' \
        > /opt/laminar/main.py
ENV SPARK_HOME=/opt/spark \
    PYSPARK_PYTHON=/usr/local/bin/python3
USER 10001:10001
ENTRYPOINT ["/opt/entrypoint.sh"]

# Last, so that it is what is built when no target is named.
FROM base AS laminar
USER 10001:10001
ENTRYPOINT ["laminar"]
CMD ["--help"]
