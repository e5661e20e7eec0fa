"""Records with every instrument of the OpenTelemetry SDK in two rounds and sends each to an endpoint.

    python3 instruments.py http|grpc ENDPOINT cumulative|delta

Exits with an error when the exporter says that a round was not taken.
"""

import sys
import time

from opentelemetry.metrics import Observation
from opentelemetry.sdk.metrics import (
    Counter,
    Histogram,
    MeterProvider,
    ObservableCounter,
    ObservableUpDownCounter,
    UpDownCounter,
)
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    MetricExporter,
    MetricExportResult,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource

protocol, endpoint, word = sys.argv[1:]
if protocol == "http":
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

    options = {"compression": Compression.Gzip}
else:
    import grpc
    from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter

    options = {"insecure": True, "compression": grpc.Compression.Gzip}

temporality = AggregationTemporality[word.upper()]
kinds = (Counter, UpDownCounter, Histogram, ObservableCounter, ObservableUpDownCounter)


class Watched(MetricExporter):
    """Remembers whether every round was taken."""

    def __init__(self):
        chosen = {kind: temporality for kind in kinds}
        super().__init__(preferred_temporality=chosen)
        self.inner = OTLPMetricExporter(endpoint=endpoint, preferred_temporality=chosen, **options)
        self.results = []

    def export(self, metrics_data, timeout_millis=10_000, **more):
        self.results.append(self.inner.export(metrics_data, timeout_millis, **more))
        return self.results[-1]

    def force_flush(self, timeout_millis=10_000):
        return True

    def shutdown(self, timeout_millis=30_000, **more):
        self.inner.shutdown()


exporter = Watched()
round_number = 0
provider = MeterProvider(
    resource=Resource({"service.name": f"python-{protocol}-{word}", "host.name": "here"}),
    metric_readers=[PeriodicExportingMetricReader(exporter, export_interval_millis=3_600_000)],
    views=[View(instrument_name="payload", aggregation=ExponentialBucketHistogramAggregation())],
)
meter = provider.get_meter("instruments")
requests = meter.create_counter("requests", "1", "Requests so far.")
queue = meter.create_up_down_counter("queue")
latency = meter.create_histogram("latency", "s", explicit_bucket_boundaries_advisory=[0.1, 1])
payload = meter.create_histogram("payload", "By")
temperature = meter.create_gauge("temperature", "Cel")
meter.create_observable_counter("cpu", [lambda _: [Observation((3, 8)[round_number])]], "s")
meter.create_observable_up_down_counter("heap", [lambda _: [Observation((4, 2)[round_number])]], "By")
meter.create_observable_gauge("load", [lambda _: [Observation(0.5)]])

for round_number in (0, 1):
    requests.add((5, 7)[round_number], {"http.method": "GET"})
    queue.add((10, -3)[round_number])
    for value in ((0.05, 0.5), (0.5, 5.0))[round_number]:
        latency.record(value)
    for value in ((0, 1), (3, 100))[round_number]:
        payload.record(value)
    temperature.set((20.5, 21.5)[round_number], {"room": "kitchen"})
    provider.force_flush()
    # Intervals are told apart by the millisecond.
    time.sleep(0.05)

assert exporter.results == [MetricExportResult.SUCCESS] * 2, exporter.results
# The third export, at the end, would repeat the second round.
exporter.export = lambda *_, **__: MetricExportResult.SUCCESS
provider.shutdown()
