"""Captures an OTLP logs request of the OpenTelemetry Python SDK, so that our decoder is checked against
bytes that nobody here wrote. Needs opentelemetry-sdk and opentelemetry-exporter-otlp-proto-http.

    python3 capture_otlp_logs.py [DIRECTORY]    writes otlp-python-logs.{pb,json,expected}

What is expected is worked out here from Google's reading of the request, not by our decoder.
"""

import base64
import http.server
import json
import os
import sys
import threading

from google.protobuf import json_format
from opentelemetry import trace
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource


class Listener(http.server.BaseHTTPRequestHandler):
    bodies = []

    def do_POST(self):
        self.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


def emit(endpoint):
    provider = LoggerProvider(resource=Resource({"service.name": "shop", "host.name": "größe"}))
    provider.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter(endpoint=endpoint)))
    logger = provider.get_logger("capture", "1.0", attributes={"scope.attribute": "x"})
    span = trace.SpanContext(0x0123456789ABCDEF0123456789ABCDEF, 0x0123456789ABCDEF, False, trace.TraceFlags(1))
    context = trace.set_span_in_context(trace.NonRecordingSpan(span))
    logger.emit(LogRecord(timestamp=1_700_000_000_000_000_001, context=context, severity_number=SeverityNumber.INFO,
                          severity_text="INFO", body={"lines": [1, 2.5, "a"]}, event_name="order.placed",
                          attributes={"order.channel": "web", "order.items": 3, "paid": True, "tags": ["a", "b"]}))
    logger.emit(LogRecord(timestamp=1_700_000_000_000_000_002, body="by attribute", attributes={"event.name": "order.shipped"}))
    logger.emit(LogRecord(timestamp=1_700_000_000_000_000_003, severity_number=SeverityNumber.ERROR, body="only a line"))
    provider.shutdown()


def any_json(value):
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [any_json(element) for element in value.array_value.values]
    if kind == "kvlist_value":
        return {pair.key: any_json(pair.value) for pair in value.kvlist_value.values}
    return getattr(value, kind) if kind else None


def expected(request):
    """One line of JSON for each record."""
    for of_resource in request.resource_logs:
        for of_scope in of_resource.scope_logs:
            for record in of_scope.log_records:
                fields = lambda pairs: {pair.key: any_json(pair.value) for pair in pairs}
                attributes = fields(record.attributes)
                yield json.dumps({
                    "name": record.event_name or attributes.get("event.name"), "time": record.time_unix_nano,
                    "severity": record.severity_number, "text": record.severity_text,
                    "body": any_json(record.body), "resource": fields(of_resource.resource.attributes),
                    "scope": of_scope.scope.name, "version": of_scope.scope.version,
                    "attributes": attributes, "trace": record.trace_id.hex(), "span": record.span_id.hex(),
                }, ensure_ascii=False, separators=(",", ":"))


def with_hex_ids(document):
    for of_resource in document["resourceLogs"]:
        for of_scope in of_resource["scopeLogs"]:
            for record in of_scope["logRecords"]:
                for key in ("traceId", "spanId"):
                    if key in record:
                        record[key] = base64.b64decode(record[key]).hex()
    return document


def main():
    directory = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    server = http.server.HTTPServer(("127.0.0.1", 0), Listener)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    emit(f"http://127.0.0.1:{server.server_port}/v1/logs")
    [body] = Listener.bodies
    request = ExportLogsServiceRequest.FromString(body)
    path = os.path.join(directory, "otlp-python-logs.")
    with open(path + "pb", "wb") as file:
        file.write(body)
    with open(path + "json", "w", encoding="utf-8") as file:
        json.dump(with_hex_ids(json_format.MessageToDict(request)), file, ensure_ascii=False, indent=1)
    with open(path + "expected", "w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in expected(request))


main()
