#!/usr/bin/env python3
"""What it costs to bring in old data, and what it costs those who write meanwhile.

    python3 scripts/bench-backfill.py --icecore target/release/icecore minutes
    python3 scripts/bench-backfill.py --icecore target/release/icecore days

minutes  ten years of one series, a sample per minute (5.2 million), 5 000 per request
days     five years of 1 000 series, a sample per day (1.8 million), day by day

Beside each a live client writes 100 samples every 20 ms and times its requests: first alone for some
seconds, then beside the import.
"""

import argparse
import http.client
import json
import os
import subprocess
import tempfile
import threading
import time

from bench_server import cpu_seconds, directory_bytes, free_port, peak_mib, request, start, stop

DAY = 86_400
QUIET_S = 10


class Live:
    """Writes as long as it is wanted; latencies in milliseconds."""

    def __init__(self, port):
        self.port, self.latencies, self.wanted = port, [], True
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        value = 0
        while self.wanted:
            value += 1
            body = "".join(f'live{{host="h{i}"}} {value}\n' for i in range(100))
            began = time.perf_counter()
            connection.request("POST", "/api/v1/import/prometheus", body)
            answer = connection.getresponse()
            answer.read()
            if answer.status >= 300:
                raise SystemExit(f"a live write was answered with {answer.status}")
            took = time.perf_counter() - began
            self.latencies.append(took * 1e3)
            time.sleep(max(0.0, 0.02 - took))

    def take(self):
        taken, self.latencies = sorted(self.latencies), []
        at = lambda share: taken[min(int(len(taken) * share), len(taken) - 1)]
        return f"p50 {at(0.5):.1f} ms, p99 {at(0.99):.1f} ms, longest {taken[-1]:.0f} ms of {len(taken)}"

    def stop(self):
        self.wanted = False
        self.thread.join()


def line(labels, times, values):
    texts = (",".join(map(str, part)) for part in (values, times))
    return '{"metric":%s,"values":[%s],"timestamps":[%s]}\n' % (json.dumps(labels), *texts)


def minutes(end):
    samples = 10 * 365 * DAY // 60
    first = end - samples * 60
    for at in range(0, samples, 5_000):
        numbers = range(at, min(at + 5_000, samples))
        yield line({"__name__": "old"}, [(first + i * 60) * 1000 for i in numbers], [i % 977 for i in numbers])


def days(end):
    for day in range(5 * 365, 0, -1):
        at = [(end - day * DAY) * 1000]
        yield "".join(line({"__name__": "old", "host": f"h{i:04}"}, at, [day + i]) for i in range(1_000))


def open_server(options, folder, log):
    port = free_port()
    command = [options.icecore, "serve", "--no-self-scrape", "--storage", folder]
    command += ["--listen", f"127.0.0.1:{port}", "--otlp.grpc.listen", "off"]
    began = time.time()
    process = start(command, f"http://127.0.0.1:{port}/-/ready", log)
    return process, port, time.time() - began


def run(options, folder, log):
    end = int(time.time()) // DAY * DAY - 7 * DAY
    process, port, _ = open_server(options, folder, log)
    live = Live(port)
    before = cpu_seconds(process.pid)
    time.sleep(QUIET_S)
    cpu = (cpu_seconds(process.pid) - before) / QUIET_S
    print(f"live writes, quiet: {live.take()}, {cpu:.2f} CPU s per second")
    began, before, texts = time.time(), cpu_seconds(process.pid), 0
    for body in {"minutes": minutes, "days": days}[options.what](end):
        texts += len(body)
        status, content = request(port, "POST", "/api/v1/import", body)
        if status >= 300:
            raise SystemExit(f"import was answered with {status}: {content[:300]}")
    imported = time.time() - began
    print(f"live writes, beside the import: {live.take()}")
    request(port, "POST", "/-/flush")
    flushed, cpu = time.time() - began, cpu_seconds(process.pid) - before
    print(f"{texts / 1e6:.0f} MB of text imported in {imported:.1f} s, flushed after {flushed:.1f} s, {cpu:.1f} CPU s")
    live.stop()
    print(f"peak memory {peak_mib(process.pid):.0f} MiB")
    stop(process)
    command = [options.icecore, "inspect", "buckets", "--storage", folder, "-o", "json"]
    listed = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    buckets = len(listed) if isinstance(listed, list) else len(listed.get("buckets", listed))
    files = sum(len(names) for _, _, names in os.walk(folder))
    print(f"{buckets} buckets, {files} files, {directory_bytes(folder) / 1e6:.1f} MB")
    process, port, opened = open_server(options, folder, log)
    times = []
    for _ in range(3):
        began = time.time()
        path = f"/api/v1/query?query=avg(avg_over_time(old%5B10y%5D))&time={end}"
        status, content = request(port, "GET", path)
        times.append(time.time() - began)
        if status != 200 or not json.loads(content)["data"]["result"]:
            raise SystemExit(f"the query was answered with {status}: {content[:300]}")
    print(f"opened in {opened:.2f} s; avg_over_time(old[10y]): first {times[0] * 1e3:.0f} ms, then {min(times[1:]) * 1e3:.0f} ms")
    stop(process)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--icecore", required=True)
    parser.add_argument("what", choices=["minutes", "days"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, open(f"{folder}/log", "w") as log:
        run(options, f"{folder}/data", log)


if __name__ == "__main__":
    main()
