"""Captures OTLP requests of the OpenTelemetry Python SDK, so that our decoder is checked against bytes
that nobody here wrote. Needs opentelemetry-sdk and opentelemetry-exporter-otlp-proto-http.

    python3 capture_otlp.py [DIRECTORY]    writes otlp-python-{cumulative,delta}.{pb,json,expected}

A listener writes down what the exporter sends: every instrument, a histogram of each kind, exemplars.
The JSON is the same request by Google's protobuf, with ids in hexadecimal as OTLP has them. What is
expected is worked out here from Google's reading of the request, not by our decoder.
"""

import base64
import http.server
import json
import os
import sys
import threading

from google.protobuf import json_format
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.sdk.metrics import (
    Counter,
    Histogram,
    MeterProvider,
    ObservableCounter,
    TraceBasedExemplarFilter,
)
from opentelemetry.sdk.metrics.export import AggregationTemporality, PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource

UNITS = {"s": "seconds", "By": "bytes", "ms": "milliseconds", "Cel": "celsius"}


class Listener(http.server.BaseHTTPRequestHandler):
    bodies = []

    def do_POST(self):
        self.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


def record(endpoint, temporality):
    """Every instrument once, with two sets of attributes."""
    chosen = {kind: temporality for kind in (Counter, ObservableCounter, Histogram)}
    exporter = OTLPMetricExporter(endpoint=endpoint, preferred_temporality=chosen)
    provider = MeterProvider(
        resource=Resource({"service.name": "shop", "service.namespace": "eu", "service.instance.id": "i-1", "host.name": "größe", "process.pid": 42}),
        metric_readers=[PeriodicExportingMetricReader(exporter, export_interval_millis=3_600_000)],
        views=[View(instrument_name="payload.size", aggregation=ExponentialBucketHistogramAggregation())],
        exemplar_filter=TraceBasedExemplarFilter(),
    )
    meter = provider.get_meter("capture", "1.0", attributes={"scope.attribute": "x"})
    span = trace.SpanContext(0x0123456789ABCDEF0123456789ABCDEF, 0x0123456789ABCDEF, False, trace.TraceFlags(1))
    context = trace.set_span_in_context(trace.NonRecordingSpan(span))
    attributes = [{"http.method": "GET", "status": 200}, {"http.method": "POST", "status": 500, "ok": False}]
    requests = meter.create_counter("http.requests", "1", "Requests.")
    for value, of in zip((5, 7), attributes):
        requests.add(value, of, context)
    meter.create_up_down_counter("queue.length", "{item}").add(-3, {"queue": "a"})
    meter.create_gauge("room.temperature", "Cel").set(21.5, {"room": "kitchen", "list": ["a", "b"]})
    latency = meter.create_histogram("http.duration", "s", "How long.", explicit_bucket_boundaries_advisory=[0.005, 0.1, 2.5])
    for value in (0.001, 0.05, 0.07, 3.0):
        latency.record(value, attributes[0], context)
    size = meter.create_histogram("payload.size", "By")
    for value in (0, 1, 3, 100, 5000):
        size.record(value, {"direction": "in"})

    def cpu(_: CallbackOptions):
        return [Observation(1.5, {"cpu": 0}), Observation(2.5, {"cpu": 1})]

    meter.create_observable_counter("cpu.time", [cpu], "s")
    meter.create_observable_up_down_counter("heap.used", [lambda _: [Observation(4096)]], "By")
    meter.create_observable_gauge("load", [lambda _: [Observation(0.25)]], "1")
    provider.shutdown()


def text(value):
    """How Rust shows the same number."""
    value = float(value)
    return str(int(value)) if value.is_integer() else repr(value)


def any_text(value):
    kind = value.WhichOneof("value")
    if kind == "bool_value":
        return str(value.bool_value).lower()
    if kind == "array_value":
        return json.dumps([element.string_value for element in value.array_value.values], separators=(",", ":"))
    return str(getattr(value, kind))


def labels(pairs):
    shown = (f'{name}="{value}"'.replace('["', '[\\"').replace('","', '\\",\\"').replace('"]', '\\"]') for name, value in sorted(pairs.items()) if value)
    return "{" + ",".join(shown) + "}"


def expected(request):
    """Lines of series and values, sorted."""
    lines = []
    for resource_metrics in request.resource_metrics:
        of_resource = {a.key: any_text(a.value) for a in resource_metrics.resource.attributes}
        base = {"job": f"{of_resource['service.namespace']}/{of_resource['service.name']}", "instance": of_resource["service.instance.id"]}
        latest = 0
        for scope_metrics in resource_metrics.scope_metrics:
            for metric in scope_metrics.metrics:
                kind = metric.WhichOneof("data")
                data = getattr(metric, kind)
                name = metric.name.replace(".", "_")
                if metric.unit in UNITS:
                    name += "_" + UNITS[metric.unit]
                counter = kind == "sum" and data.is_monotonic
                if counter:
                    name += "_total"
                if kind == "gauge" and metric.unit == "1":
                    name += "_ratio"
                temporality = getattr(data, "aggregation_temporality", 0)
                for point in data.data_points:
                    own = base | {a.key.replace(".", "_"): any_text(a.value) for a in point.attributes}
                    at = f" @{point.time_unix_nano // 1_000_000}"
                    latest = max(latest, point.time_unix_nano)
                    if temporality == 1 or (temporality == 2 and kind != "sum") or counter:
                        start = point.start_time_unix_nano // 1_000_000
                        at += f" since {start}" if start else ""
                    delta = "delta " if temporality == 1 else ""

                    def line(suffix, extra, value):
                        lines.append(f"{name}{suffix}{labels(own | extra)} {delta}{value}{at}")

                    if kind in ("gauge", "sum"):
                        line("", {}, text(getattr(point, point.WhichOneof("value"))))
                    elif kind == "histogram":
                        total = 0
                        for bound, count in zip(point.explicit_bounds, point.bucket_counts):
                            total += count
                            line("_bucket", {"le": text(bound)}, text(total))
                        line("_bucket", {"le": "+Inf"}, text(point.count))
                        line("_sum", {}, text(point.sum))
                        line("_count", {}, text(point.count))
                    else:
                        down = max(point.scale - 8, 0)
                        buckets = {}
                        for i, count in enumerate(point.positive.bucket_counts):
                            if count:
                                index = (point.positive.offset + i >> down) + 1
                                buckets[index] = buckets.get(index, 0) + count
                        line("", {}, f"histogram schema={point.scale - down} sum={text(point.sum)} count={point.count} zero={point.zero_count}/1e-128 {buckets}")
        info = base | {key.replace(".", "_"): value for key, value in of_resource.items() if not key.startswith("service.")}
        lines.append(f"target_info{labels(info)} 1 @{latest // 1_000_000}")
    return "\n".join(sorted(lines)) + "\n"


def as_json(request):
    def with_hex_ids(value):
        if isinstance(value, list):
            return [with_hex_ids(element) for element in value]
        if not isinstance(value, dict):
            return value
        ids = {key: base64.b64decode(value[key]).hex() for key in ("traceId", "spanId") if key in value}
        return {key: with_hex_ids(inner) for key, inner in value.items()} | ids

    return json.dumps(with_hex_ids(json_format.MessageToDict(request)), ensure_ascii=False)


def main():
    directory = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Listener)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.server_port}/v1/metrics"
    for word, temporality in (("cumulative", AggregationTemporality.CUMULATIVE), ("delta", AggregationTemporality.DELTA)):
        Listener.bodies.clear()
        record(endpoint, temporality)
        (body,) = Listener.bodies
        request = ExportMetricsServiceRequest.FromString(body)
        path = os.path.join(directory, f"otlp-python-{word}")
        with open(path + ".pb", "wb") as file:
            file.write(body)
        with open(path + ".json", "w") as file:
            file.write(as_json(request))
        with open(path + ".expected", "w") as file:
            file.write(expected(request))


if __name__ == "__main__":
    main()
