"""Emits two events and a line through the logs of the OpenTelemetry SDK, the same at every run of one hour.

    python3 otlp_logs.py http|grpc ENDPOINT

Exits with an error when the exporter says that they were not taken.
"""

import sys
import time

from opentelemetry import trace
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import LogRecordExporter, LogRecordExportResult, BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource

protocol, endpoint = sys.argv[1:]
if protocol == "http":
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter

    options = {"compression": Compression.Gzip}
else:
    import grpc
    from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter

    options = {"insecure": True, "compression": grpc.Compression.Gzip}


class Watched(LogRecordExporter):
    """Remembers whether everything was taken."""

    def __init__(self):
        self.inner = OTLPLogExporter(endpoint=endpoint, **options)
        self.results = []

    def export(self, batch):
        self.results.append(self.inner.export(batch))
        return self.results[-1]

    def force_flush(self, timeout_millis=10_000):
        return True

    def shutdown(self):
        self.inner.shutdown()


exporter = Watched()
provider = LoggerProvider(resource=Resource({"service.name": "shop", "host.name": "here"}))
provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
logger = provider.get_logger("events", "1.0")
span = trace.SpanContext(0x0123456789ABCDEF0123456789ABCDEF, 0x0123456789ABCDEF, False, trace.TraceFlags(1))
context = trace.set_span_in_context(trace.NonRecordingSpan(span))
# Some minutes ago, on a grid that both runs of a test are in.
at_ns = (time.time_ns() // 1_000_000_000 // 600 * 600 - 600) * 1_000_000_000
logger.emit(LogRecord(timestamp=at_ns, observed_timestamp=at_ns, context=context, severity_number=SeverityNumber.INFO,
                      severity_text="INFO", body={"lines": [1, 2.5, "a"]}, event_name="order.placed",
                      attributes={"order.channel": "web", "order.items": 3}))
logger.emit(LogRecord(timestamp=at_ns, observed_timestamp=at_ns, body="by attribute",
                      attributes={"event.name": "order.placed", "order.channel": "app"}))
logger.emit(LogRecord(timestamp=at_ns, observed_timestamp=at_ns, body="only a line"))
provider.shutdown()
sys.exit(0 if exporter.results and all(result is LogRecordExportResult.SUCCESS for result in exporter.results) else 1)
