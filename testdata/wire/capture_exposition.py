"""Captures what exporters that nobody here wrote expose. Needs: pip install prometheus_client,
prometheus-node-exporter.

    python3 capture_exposition.py            writes node-exporter-1.5.txt, node-exporter-1.5.protobuf,
                                             python-client.openmetrics
    python3 capture_exposition.py summary    what the text captures hold, by the Python client's parsers
"""

import subprocess
import sys
import time
import urllib.request

from prometheus_client import CollectorRegistry, Counter, Enum, Gauge, Histogram, Info, Summary
from prometheus_client.core import GaugeHistogramMetricFamily, StateSetMetricFamily
from prometheus_client.openmetrics import exposition, parser as openmetrics_parser
from prometheus_client.parser import text_string_to_metric_families

PORT = 19871
PROTOBUF = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"


def fetch(accept):
    request = urllib.request.Request(f"http://127.0.0.1:{PORT}/metrics", headers={"Accept": accept})
    return urllib.request.urlopen(request).read()


class Others:
    def collect(self):
        yield GaugeHistogramMetricFamily(
            "queue_age_seconds", "Ages of waiting jobs", buckets=[("1.0", 2), ("+Inf", 5)], gsum_value=9.5, unit="seconds")
        yield StateSetMetricFamily("feature", "Features", value={"a": True, "b": False})


def python_client():
    registry = CollectorRegistry()
    requests = Counter("requests", "Requests \"served\" \\ so\nfar", ["method", "path"], registry=registry)
    for i in range(20):
        requests.labels("GET", f"/p/{i}\n\"x\\").inc(i, exemplar={"trace_id": f"{i:032x}"} if i % 2 else None)
    seconds = Histogram("rpc_seconds", "Time", ["service"], unit="seconds", registry=registry)
    for i in range(40):
        seconds.labels(f"s{i % 4}").observe(i / 7, exemplar={"trace_id": f"{i:032x}"})
    sizes = Summary("answer_bytes", "Sizes", ["code"], unit="bytes", registry=registry)
    for i in range(9):
        sizes.labels(str(200 + i % 3)).observe(i * 1000.5)
    Gauge("temperature_celsius", "Now", unit="celsius", registry=registry).set(-3.25)
    Info("build", "Build", registry=registry).info({"version": "1.2", "commit": "ü"})
    Enum("task_state", "State", states=["starting", "running"], registry=registry).state("running")
    registry.register(Others())
    return exposition.generate_latest(registry)


def summary():
    for file, read in [
        ("node-exporter-1.5.txt", text_string_to_metric_families),
        ("python-client.openmetrics", openmetrics_parser.text_string_to_metric_families),
    ]:
        families = list(read(open(file, encoding="utf-8").read()))
        samples = [sample for family in families for sample in family.samples]
        print(file, "families", len(families), "samples", len(samples),
              "labels", sum(len(sample.labels) for sample in samples),
              "exemplars", sum(sample.exemplar is not None for sample in samples),
              "created", sum(sample.name.endswith("_created") for sample in samples))


if sys.argv[1:] == ["summary"]:
    summary()
else:
    exporter = subprocess.Popen(
        ["prometheus-node-exporter", f"--web.listen-address=127.0.0.1:{PORT}"], stderr=subprocess.DEVNULL)
    time.sleep(2)
    open("node-exporter-1.5.txt", "wb").write(fetch("text/plain"))
    open("node-exporter-1.5.protobuf", "wb").write(fetch(PROTOBUF))
    exporter.kill()
    open("python-client.openmetrics", "wb").write(python_client())
