#!/usr/bin/env python3
"""What events cost: CPU, latency and memory at a rate, queries over many events, a restart after a
kill.

    python3 scripts/bench-events.py --icecore target/release/icecore rate
    python3 scripts/bench-events.py --icecore target/release/icecore search
    python3 scripts/bench-events.py --icecore target/release/icecore counters

rate      --rate events a second for --seconds, and then as many as there can be; a kill at full rate, and
          the time until the next process is ready
search    --events of one type that began within 30 minutes; the newest 20 of them, and a question in SQL
          where the server was built with it
counters  30 days of events in 100 dimension sets; a query by the hour, and the same in PromQL

Events have 550 bytes and feed three counters, a histogram and a gauge; batches have 500, sent by
--clients connections. What the senders take is not counted.
"""

import argparse
import http.client
import json
import multiprocessing
import signal
import statistics
import tempfile
import time
import uuid
from datetime import datetime, timezone

from bench_server import cpu_seconds, directory_bytes, free_port, peak_mib, request, start, stop

BATCH = 500
JSON = {"Content-Type": "application/json"}

DOCUMENTS = """
apiVersion: obsinity/v1
kind: Event
metadata: { service: shop, name: order.placed }
spec:
  retention: { ttl: 60d }
  schema:
    type: object
    required: [order.channel]
    properties:
      order:
        type: object
        properties:
          channel: { type: string, index: true }
          region: { type: string, index: true }
          items: { type: integer, index: true }
          latency_ms: { type: number }
      http: { type: object, properties: { status: { type: integer, index: true } } }
      stock: { type: object, properties: { level: { type: integer } } }
---
apiVersion: obsinity/v1
kind: MetricCounter
metadata: { service: shop, event: order.placed, name: orders }
spec: { key: { dimensions: [order.channel, order.region] } }
---
apiVersion: obsinity/v1
kind: MetricCounter
metadata: { service: shop, event: order.placed, name: orders_by_status }
spec: { key: { dimensions: [http.status] } }
---
apiVersion: obsinity/v1
kind: MetricCounter
metadata: { service: shop, event: order.placed, name: order_items }
spec:
  key: { dimensions: [order.channel] }
  value: order.items
  rollup: { operation: sum }
---
apiVersion: obsinity/v1
kind: MetricHistogram
metadata: { service: shop, event: order.placed, name: order_latency_ms }
spec:
  value: order.latency_ms
  key: { dimensions: [order.channel] }
  buckets: { strategy: custom, bounds: [5, 10, 20, 50, 100, 250, 500, 1000, 2500, 5000] }
---
apiVersion: obsinity/v1
kind: MetricGauge
metadata: { service: shop, event: order.placed, name: stock_level }
spec: { value: stock.level, reducer: latest, key: { dimensions: [order.channel] } }
"""

EVENT = (
    '{"eventId":"%s","event":{"name":"order.placed","kind":"SERVER"},"resource":{"service":{"id":"shop",'
    '"version":"3.1.0"},"host":{"name":"node-%d"}},"trace":{"traceId":"%s","spanId":"%s"},'
    '"time":{"startUnixNano":%d,"endUnixNano":%d},"status":{"code":"OK"},"attributes":{"order":{'
    '"channel":"%s","region":"r%02d","items":%d,"latency_ms":%d.5,"total":41.25},"http":{"status":%d,'
    '"route":"/api/v1/orders/{id}"},"customer":{"id":"c-%d","tier":"gold"},"stock":{"level":%d}}}'
)
CHANNELS = ["web", "app", "shop", "phone", "partner"]


def batch(number, starts_ns):
    """A body of events that begin at these times."""
    events = []
    for i, start_ns in enumerate(starts_ns):
        n = number * BATCH + i
        id = uuid.uuid4().hex
        events.append(
            EVENT
            % (
                f"{id[:8]}-{id[8:12]}-{id[12:16]}-{id[16:20]}-{id[20:]}",
                n % 50,
                id,
                id[:16],
                start_ns,
                start_ns + 60_000_000,
                CHANNELS[n % 5],
                n // 5 % 20,
                n % 9,
                n % 700,
                (200, 200, 200, 404, 500)[n // 7 % 5],
                n % 100_000,
                n % 1000,
            )
        )
    return ("[" + ",".join(events) + "]").encode()


def send(port, number, share, pace_s, seconds, times, results):
    """One connection: a batch every `pace_s`, or as fast as it goes; latencies of all of them."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    began, latencies, stored = time.time(), [], 0
    sent = 0
    try:
        while time.time() - began < seconds and (share is None or sent < share):
            due = began + sent * pace_s
            if due > time.time():
                time.sleep(due - time.time())
            body = batch(number + sent, times(sent))
            asked = time.time()
            connection.request("POST", "/events/publish/batch", body, JSON)
            answer = connection.getresponse()
            content = answer.read()
            latencies.append(time.time() - asked)
            if answer.status != 202:
                raise SystemExit(f"a batch was answered with {answer.status}: {content[:300]}")
            stored += json.loads(content)["stored"]
            sent += 1
    except (OSError, http.client.HTTPException):
        pass  # the server was killed
    results.put((stored, latencies))


class Now:
    """Events that begin now."""

    def __call__(self, sent):
        now = time.time_ns()
        return [now] * BATCH


class Spread:
    """Events that begin one after the other, from one time to another."""

    def __init__(self, first_s, last_s, batches):
        self.first_ns, self.step = int(first_s * 1e9), int((last_s - first_s) * 1e9) // (batches * BATCH)

    def __call__(self, sent):
        at = self.first_ns + sent * BATCH * self.step
        return range(at, at + BATCH * self.step, max(self.step, 1))[:BATCH]


def load(port, clients, seconds, pace_s=0.0, share=None, times=None):
    """Events stored, seconds, and latencies."""
    results = multiprocessing.Queue()
    workers = []
    for client in range(clients):
        mine = (times[client] if times else Now())
        arguments = (port, client * 1_000_000, share, pace_s, seconds, mine, results)
        workers.append(multiprocessing.Process(target=send, args=arguments))
    began = time.time()
    [worker.start() for worker in workers]
    answers = [results.get() for _ in workers]
    [worker.join() for worker in workers]
    latencies = sorted(value for _, part in answers for value in part)
    return sum(stored for stored, _ in answers), time.time() - began, latencies


class Server:
    def __init__(self, binary, folder, log):
        self.binary, self.folder, self.log = binary, folder, log
        self.open()
        status, body = request(
            self.port, "POST", "/api/admin/config/documents", DOCUMENTS, {"Content-Type": "application/yaml"}
        )
        if status != 200:
            raise SystemExit(f"the documents were answered with {status}: {body}")

    def open(self):
        self.port = free_port()
        command = [self.binary, "serve", "--no-self-scrape", "--storage", self.folder]
        command += ["--listen", f"127.0.0.1:{self.port}", "--otlp.grpc.listen", "off"]
        began = time.time()
        self.process = start(command, f"http://127.0.0.1:{self.port}/-/ready", self.log)
        self.opened_s = time.time() - began
        self.pid = self.process.pid

    def post(self, path, document):
        began, before = time.time(), cpu_seconds(self.pid)
        status, body = request(self.port, "POST", path, json.dumps(document), JSON)
        if status != 200:
            raise SystemExit(f"{path} was answered with {status}: {body[:300]}")
        return (time.time() - began) * 1e3, (cpu_seconds(self.pid) - before) * 1e3, json.loads(body)

    def best(self, what, path, document):
        runs = [self.post(path, document) for _ in range(7)]
        warm = min(runs[1:], key=lambda run: run[0])
        print(f"{what}: first {runs[0][0]:.0f} ms, best {warm[0]:.0f} ms ({warm[1]:.0f} CPU ms)")
        return runs[-1][2]


def report(what, server, before, stored, seconds, latencies):
    cpu = cpu_seconds(server.pid) - before
    p50, p99 = statistics.median(latencies), latencies[int(len(latencies) * 0.99)]
    print(
        f"{what}: {stored / seconds:.0f} events/s, {cpu / seconds * 100:.0f} % of a core, "
        f"{cpu / stored * 1e6:.1f} CPU us per event, batches p50 {p50 * 1e3:.0f} ms, p99 {p99 * 1e3:.0f} ms, "
        f"peak {peak_mib(server.pid):.0f} MiB"
    )


def total(server):
    now = datetime.now(timezone.utc).isoformat()
    document = {"serviceKey": "shop", "eventType": "order.placed", "counterName": "orders"}
    answer = server.post("/api/query/counters", document | {"interval": "1d", "start": "2026-01-01T00:00:00Z", "end": now})
    return sum(count["count"] for part in answer[2]["data"]["intervals"] for count in part["counts"])


def rate(options, folder, log):
    server = Server(options.icecore, folder, log)
    before = cpu_seconds(server.pid)
    pace = options.clients * BATCH / options.rate
    first = load(server.port, options.clients, options.seconds, pace)
    report(f"{options.rate} a second", server, before, *first)
    print(f"counted at once: {total(server)} of {first[0]}")
    before = cpu_seconds(server.pid)
    second = load(server.port, options.clients, options.seconds)
    report("as many as there can be", server, before, *second)
    killer = multiprocessing.Process(target=kill_later, args=(server.pid, 5))
    killer.start()
    third = load(server.port, options.clients, 30)
    killer.join()
    server.process.wait()
    server.open()
    counted, stored = total(server), first[0] + second[0] + third[0]
    print(f"ready {server.opened_s:.2f} s after kill -9; {counted} counted, {stored} answered as stored")
    size = directory_bytes(folder)
    print(f"{size / 1e6:.0f} MB, {size / counted:.0f} bytes per event")
    stop(server.process)


def kill_later(pid, seconds):
    import os

    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)


def search(options, folder, log):
    server = Server(options.icecore, folder, log)
    share = options.events // BATCH // options.clients
    last = time.time()
    times = [Spread(last - 1800, last, share) for _ in range(options.clients)]
    before = cpu_seconds(server.pid)
    report("loading", server, before, *load(server.port, options.clients, 3600, share=share, times=times))
    document = {"service": "shop", "event": "order.placed", "period": {"previous": "40m"}, "limit": 20}
    while json.loads(request(server.port, "GET", "/api/admin/partitions")[1])["items"][0]["events"] < share * BATCH:
        time.sleep(1)
    server.best("newest 20", "/api/search/events", document)
    match = {"attribute": "http.status", "op": "=", "value": 500}
    server.best("newest 20 that match", "/api/search/events", document | {"match": match})
    text = "SELECT \"attr.http.status\", count(*) FROM shop.\"order.placed\" WHERE started_at > now() - INTERVAL '1 hour' GROUP BY 1"
    status, body = request(server.port, "POST", "/events/sql", json.dumps({"q": text}), JSON)
    if status == 501 and b"sql.not-built" in body:
        print("SQL: not measured, the server was built without `--features sql`")
    else:
        server.best("SQL: count by status", "/events/sql", {"q": text})
    size = directory_bytes(folder)
    print(f"{size / 1e6:.0f} MB, {size / (share * options.clients * BATCH):.0f} bytes per event")
    stop(server.process)


def counters(options, folder, log):
    server = Server(options.icecore, folder, log)
    batches = 720
    last = time.time() // 3600 * 3600
    times = [Spread(last - 30 * 86_400, last, batches)]
    load(server.port, 1, 600, share=batches, times=times)
    request(server.port, "POST", "/api/admin/flush")
    text = lambda at: datetime.fromtimestamp(at, timezone.utc).isoformat()
    document = {
        "serviceKey": "shop",
        "eventType": "order.placed",
        "counterName": "orders",
        "interval": "1h",
        "start": text(last - 30 * 86_400),
        "end": text(last),
        "groupBy": ["order.channel", "order.region"],
    }
    answer = server.best("30 days by hour, 100 dimension sets", "/api/query/counters", document)
    print(f"  {len(answer['data']['intervals'])} intervals of window {answer['window']}")
    began = time.time()
    query = f"/api/v1/query_range?query=sum_over_time(orders%3A1h%5B1h%5D)&start={last - 30 * 86_400}&end={last}&step=3600"
    for _ in range(5):
        began = time.time()
        status, body = request(server.port, "GET", query)
    print(f"the same in PromQL: {status}, {len(json.loads(body)['data']['result'])} series, {(time.time() - began) * 1e3:.0f} ms")
    stop(server.process)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--icecore", required=True)
    parser.add_argument("--rate", type=int, default=10_000)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--events", type=int, default=18_000_000)
    parser.add_argument("what", choices=["rate", "search", "counters"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, open(f"{folder}/log", "w") as log:
        {"rate": rate, "search": search, "counters": counters}[options.what](options, f"{folder}/data", log)


if __name__ == "__main__":
    main()
