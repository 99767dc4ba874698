# shoal in a container: without a GPU, or with an NVIDIA GPU (jax's wheels contain CUDA, the host provides the driver).
#
#   docker build -t shoal .
#   docker build -t shoal-cuda --build-arg EXTRA=cuda13 .
#   docker build -t shoal-cuda --build-arg EXTRA=cuda13 --build-arg BASE=nvidia/cuda:13.0.1-base-ubuntu24.04 .
#
# BASE is any image of Debian or Ubuntu; if it has no Python, that of the distribution is installed (3.11 or newer).
ARG BASE=python:3.12-slim-bookworm

# hadolint ignore=DL3006
FROM ${BASE} AS python
SHELL ["/bin/sh", "-eu", "-c"]
# hadolint ignore=DL3008
RUN if ! python3 -c "import ensurepip" 2>/dev/null; then \
        apt-get update; \
        apt-get install --yes --no-install-recommends python3 python3-venv; \
        rm -rf /var/lib/apt/lists/*; \
    fi

FROM python AS build
ARG EXTRA=
WORKDIR /source
COPY . .
RUN python3 -m venv /opt/shoal \
    && /opt/shoal/bin/python -m pip install --no-cache-dir -c constraints.txt ".${EXTRA:+[$EXTRA]}" \
    && /opt/shoal/bin/python -m pip uninstall --yes pip

FROM python
COPY --from=build /opt/shoal /opt/shoal
# Every user may write to the home folder, so that `docker run --user` works.
RUN useradd --uid 10001 --create-home shoal && chmod 1777 /home/shoal
USER 10001
WORKDIR /home/shoal
ENV PATH=/opt/shoal/bin:$PATH HOME=/home/shoal
ENTRYPOINT ["shoal"]
CMD ["--help"]
