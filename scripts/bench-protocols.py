#!/usr/bin/env python3
"""What protocols cost: CPU seconds per million samples, for icecore and, where it has such a protocol, for a
Prometheus in the same minutes.

    python3 scripts/bench-protocols.py --icecore target/release/icecore --prometheus "$(command -v prometheus)"

Protocols: scraping TARGETS targets of SERIES series each, OTLP over HTTP, OTLP over gRPC. Needs, for OTLP, the
packages opentelemetry-proto and grpcio. CPU is what the kernel counts for the process (user and system),
from the first to the last sample; what the sender takes is not counted.
"""

import argparse
import http.client
import http.server
import json
import os
import random
import shutil
import sys
import tempfile
import threading
import time
import urllib.parse

from bench_server import cpu_seconds, free_port, peak_mib, start, stop

class Targets:
    """One server that stands for all targets: /metrics/N is the Nth."""

    def __init__(self, series):
        self.heads = [
            'node_metric_%d_total{cpu="%d",mode="%s",device="eth%d"} '
            % (i // 50, i % 50, ["idle", "user", "system", "iowait"][i % 4], i % 7)
            for i in range(series)
        ]
        self.values = [random.randrange(1_000_000) for _ in range(series)]
        self.rounds = 0
        self.scrapes = {}
        targets = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                body = targets.body(self.path)
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.lock = threading.Lock()
        self.rendered = (0, b"")
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def body(self, path):
        # The text changes every 200 ms, not for each target: rendering must not be what is measured.
        now = int(time.time() * 5)
        with self.lock:
            if self.rendered[0] != now:
                for i in range(0, len(self.values), 2):
                    self.values[i] += random.randrange(100)
                lines = [f"{head}{value}\n" for head, value in zip(self.heads, self.values)]
                self.rendered = (now, "".join(lines).encode())
            return self.rendered[1]


def query(url, text):
    host = urllib.parse.urlparse(url)
    connection = http.client.HTTPConnection(host.hostname, host.port, timeout=60)
    connection.request(
        "POST",
        "/api/v1/query",
        urllib.parse.urlencode({"query": text}),
        {"Content-Type": "application/x-www-form-urlencoded"},
    )
    result = json.loads(connection.getresponse().read())["data"]["result"]
    return float(result[0]["value"][1]) if result else 0.0


def scrape_config(targets, count, interval):
    groups = [
        {
            "targets": [f"127.0.0.1:{targets.port}"],
            "labels": {"__metrics_path__": f"/metrics/{n}", "instance": f"target-{n:03}"},
        }
        for n in range(count)
    ]
    job = {"job_name": "bench", "scrape_interval": interval, "scrape_timeout": interval, "static_configs": groups}
    # JSON is YAML.
    return json.dumps({"scrape_configs": [job]})


def measured(name, process, samples, seconds, cpu):
    per_million = cpu / samples * 1e6 if samples else float("nan")
    print(
        f"{name:32} {samples:>12.0f} samples  {cpu:7.2f} CPU s  {per_million:6.3f} CPU s per million"
        f"  {samples / seconds:>10.0f} samples/s  peak {peak_mib(process.pid):6.0f} MiB",
        flush=True,
    )


def bench_scrape(options, directory):
    targets = Targets(options.series)
    config = os.path.join(directory, "scrape.yml")
    with open(config, "w") as file:
        file.write(scrape_config(targets, options.targets, options.interval))
    peers = []
    port, grpc = free_port(), free_port()
    command = [options.icecore, "serve", "--config", config, "--storage", os.path.join(directory, "scraped")]
    command += ["--listen", f"127.0.0.1:{port}", "--otlp.grpc.listen", f"127.0.0.1:{grpc}"]
    peers.append(("icecore", command, f"http://127.0.0.1:{port}"))
    if options.prometheus:
        port = free_port()
        command = [options.prometheus, f"--config.file={config}", f"--web.listen-address=127.0.0.1:{port}"]
        command += [f"--storage.tsdb.path={directory}/prometheus"]
        peers.append(("prometheus", command, f"http://127.0.0.1:{port}"))
    running = []
    for name, command, url in peers:
        log = open(os.path.join(directory, f"{name}.log"), "w")
        running.append((name, start(command, url + "/-/ready", log), url))
    # The first scrapes make the series; they are not what goes on for years.
    time.sleep(options.warm_up)
    began = time.time()
    before = [cpu_seconds(process.pid) for _, process, _ in running]
    time.sleep(options.seconds)
    after = [cpu_seconds(process.pid) for _, process, _ in running]
    seconds = time.time() - began
    for (name, process, url), first, last in zip(running, before, after):
        # Counted by the database itself, a little after, over the time that was measured.
        samples = query(url, f'sum(sum_over_time(scrape_samples_scraped{{job="bench"}}[{int(seconds)}s]))')
        failed = query(url, f'count(min_over_time(up{{job="bench"}}[{int(seconds)}s]) == 0)')
        measured(f"scrape, {name}", process, samples, seconds, last - first)
        if failed:
            print(f"  {failed:.0f} targets had failed scrapes")
    for _, process, _ in running:
        stop(process)


def otlp_bodies(count, points, series):
    from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
    from opentelemetry.proto.metrics.v1 import metrics_pb2

    bodies = []
    now = time.time_ns() - count * 10_000_000_000
    for number in range(count):
        request = metrics_service_pb2.ExportMetricsServiceRequest()
        resource = request.resource_metrics.add()
        attribute = resource.resource.attributes.add(key="service.name")
        attribute.value.string_value = "bench"
        scope = resource.scope_metrics.add()
        at = now + number * 10_000_000_000
        for i in range(points):
            if i % 50 == 0:
                metric = scope.metrics.add(name=f"bench.requests.{i // 50}", unit="By")
                metric.sum.is_monotonic = True
                metric.sum.aggregation_temporality = metrics_pb2.AGGREGATION_TEMPORALITY_CUMULATIVE
            point = metric.sum.data_points.add(
                start_time_unix_nano=now - 10_000_000_000, time_unix_nano=at, as_int=number * 7 + i
            )
            for key, value in (
                ("http.route", f"/api/{i % 10}"),
                ("http.response.status_code", str(200 + i % 5)),
                ("host.name", f"host-{(i + number % (series // points) * points) // 50}"),
                ("cpu", str(i % 50)),
            ):
                point.attributes.add(key=key).value.string_value = value
        bodies.append(request.SerializeToString())
    return bodies


def bench_otlp(options, directory, over_grpc):
    port, grpc_port = free_port(), free_port()
    name = "gRPC" if over_grpc else "HTTP"
    log = open(os.path.join(directory, f"otlp-{name}.log"), "w")
    command = [options.icecore, "serve", "--storage", os.path.join(directory, f"otlp-{name}"), "--no-self-scrape"]
    command += ["--listen", f"127.0.0.1:{port}", "--otlp.grpc.listen", f"127.0.0.1:{grpc_port}"]
    process = start(command, f"http://127.0.0.1:{port}/-/ready", log)
    bodies = otlp_bodies(options.requests, options.points, options.points)
    if over_grpc:
        import grpc

        channel = grpc.insecure_channel(f"127.0.0.1:{grpc_port}")
        call = channel.unary_unary("/opentelemetry.proto.collector.metrics.v1.MetricsService/Export")
        send = lambda body: call(body, timeout=60)
    else:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

        def send(body):
            connection.request("POST", "/v1/metrics", body, {"Content-Type": "application/x-protobuf"})
            response = connection.getresponse()
            answer = response.read()
            if response.status != 200 or answer:
                sys.exit(f"{response.status}: {answer[:300]}")

    # The first request makes the series.
    send(bodies[0])
    began, before = time.time(), cpu_seconds(process.pid)
    for body in bodies[1:]:
        send(body)
    seconds, cpu = time.time() - began, cpu_seconds(process.pid) - before
    measured(f"OTLP/{name}, icecore", process, options.points * (len(bodies) - 1), seconds, cpu)
    stop(process)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--icecore", default="target/release/icecore")
    parser.add_argument("--prometheus", default=shutil.which("prometheus"))
    parser.add_argument("--targets", type=int, default=100)
    parser.add_argument("--series", type=int, default=1000)
    parser.add_argument("--interval", default="2s")
    parser.add_argument("--warm-up", type=float, default=10)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--points", type=int, default=5000)
    parser.add_argument("--only", choices=["scrape", "http", "grpc"])
    options = parser.parse_args()
    directory = tempfile.mkdtemp(prefix="icecore-protocols-")
    if options.only in (None, "scrape"):
        bench_scrape(options, directory)
    if options.only in (None, "http"):
        bench_otlp(options, directory, over_grpc=False)
    if options.only in (None, "grpc"):
        bench_otlp(options, directory, over_grpc=True)
    shutil.rmtree(directory, ignore_errors=True)


main()
