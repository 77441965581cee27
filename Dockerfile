# An image of the web server, the worker, and the clock. It contains neither PostgreSQL nor Redis.
ARG PYTHON=3.12

FROM python:${PYTHON}-slim AS packages
WORKDIR /build
COPY requirements/server.lock requirements/
RUN python -m venv /opt/venv \
    && /opt/venv/bin/pip install --no-cache-dir --no-compile --require-hashes -r requirements/server.lock \
    && /opt/venv/bin/pip uninstall --yes pip
# Nothing uses other languages, Redoc, and the maps of scripts, which are a tenth of the image.
RUN find /opt/venv -path '*/locale/*' -type d -not -path '*/locale/en*' -prune -exec rm -rf {} + \
    && find /opt/venv -path '*/ninja/static/*' '(' -name '*.map' -o -name 'redoc*' ')' -delete \
    && sed -i '/sourceMappingURL/d' /opt/venv/lib/python*/site-packages/ninja/static/ninja/*.css

FROM python:${PYTHON}-slim
# Old rows are archived below the data folder. Mount a volume there, as compose.yaml does: what is
# archived into the container itself goes with it.
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin tenfour \
    && install --directory --owner=tenfour --mode=750 /opt/tenfour-data/archive
COPY --from=packages /opt/venv /opt/venv
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    TENFOUR_DATA=/opt/tenfour-data \
    TENFOUR_HEARTBEAT_FILE=/tmp/tenfour-heartbeat \
    TENFOUR_HOST=0.0.0.0 \
    TENFOUR_LOG_JSON=1
WORKDIR /opt/tenfour
COPY manage.py LICENSE ./
COPY client client
COPY config config
COPY ledger ledger
COPY retries retries
COPY dashboard dashboard
COPY templates templates
# Collecting static files connects to nothing; the addresses only have to parse.
RUN DATABASE_URL=postgres://nothing@127.0.0.1/nothing REDIS_URL=redis://127.0.0.1/0 \
    TENFOUR_SECRET_KEY=used-for-nothing-but-this-one-command \
    python manage.py collectstatic --noinput
USER 10001
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s \
    CMD ["python", "-m", "config.monitoring.probe", "/healthz"]
CMD ["python", "-m", "config.web_server"]
