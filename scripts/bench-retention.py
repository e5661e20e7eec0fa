#!/usr/bin/env python3
"""What old data costs: queries of a year over windows, over raw samples and, if given, in
VictoriaMetrics; bytes of each level; what ten years of buckets cost.

    python3 scripts/bench-retention.py --icecore target/release/icecore [--victoriametrics …] year
    python3 scripts/bench-retention.py --icecore target/release/icecore month
    python3 scripts/bench-retention.py --icecore target/release/icecore decade

year    --series series (half of them counters), one sample per --interval seconds, 365 days; imported
        into icecore without a policy, with `--retention default`, and into VictoriaMetrics; each query
        once after a restart and then six times
month   62 days of samples at 15 s, --series counters and as many gauges, scraped ten at a time with
        3 ms of jitter; maintenance rolls them up; bytes per series and hour of each level, and what a
        year of 10 000 series costs
decade  ten years of one sample per day; buckets, files, bytes of the list, time to open and to query

With --keep DIR the data of `year` stay there, and the next run only queries them.
"""

import argparse
import contextlib
import json
import os
import random
import subprocess
import tempfile
import time
import urllib.parse

from bench_server import cpu_seconds, directory_bytes, free_port, peak_mib, request, start, stop

DAY = 86_400
VARIANTS = 20


def texts(samples, counter, seed):
    """The values of a series as text. Series share a few of them: writing text is not measured."""
    rng = random.Random(seed)
    value, parts = rng.randrange(1000), []
    for _ in range(samples):
        value = value + rng.randrange(50) if counter else rng.gauss(value, 0.3)
        parts.append(str(value) if counter else f"{value:.1f}")
    return ",".join(parts)


def bodies(series, samples, interval, end):
    """Lines of JSON, as VictoriaMetrics exports them; some series at a time."""
    times = ",".join(str((end - i * interval) * 1000) for i in reversed(range(samples)))
    variants = {
        (counter, seed): texts(samples, counter, seed)
        for counter in (False, True)
        for seed in range(VARIANTS)
    }
    for i in range(series):
        counter = i % 2 == 1
        labels = {
            "__name__": "reqs_total" if counter else "temp",
            "host": f"host-{i:05}",
            "zone": f"z{i % 8}",
        }
        values = variants[(counter, i % VARIANTS)]
        yield f'{{"metric":{json.dumps(labels)},"values":[{values}],"timestamps":[{times}]}}\n'.encode()


def load(port, parts, pid):
    began, before, pending, size = time.time(), cpu_seconds(pid), [], 0
    for part in parts:
        pending.append(part)
        size += len(part)
        if size > 8 << 20:
            send(port, pending)
            pending, size = [], 0
    send(port, pending)
    return time.time() - began, cpu_seconds(pid) - before


def send(port, parts):
    status, body = request(port, "POST", "/api/v1/import", b"".join(parts))
    if status >= 300:
        raise SystemExit(f"import was answered with {status}: {body[:300]}")


def ask(port, pid, text, start_s, end_s, step):
    """Milliseconds and CPU milliseconds of the first and of the best of six more."""
    form = {"query": text, "start": start_s, "end": end_s, "step": step}
    runs = []
    for _ in range(7):
        began, before = time.time(), cpu_seconds(pid)
        status, body = request(
            port,
            "POST",
            "/api/v1/query_range",
            urllib.parse.urlencode(form),
            {"Content-Type": "application/x-www-form-urlencoded"},
        )
        runs.append(((time.time() - began) * 1e3, (cpu_seconds(pid) - before) * 1e3))
        answer = json.loads(body)
        if status != 200 or not answer["data"]["result"]:
            raise SystemExit(f"{text}: {status} {body[:300]}")
    last = answer["data"]["result"][0]["values"][-1][1]
    return runs[0], min(runs[1:]), last


class Icecore:
    def __init__(self, binary, folder, log, policy=None):
        self.binary, self.folder, self.log, self.policy = binary, folder, log, policy
        self.open()

    def open(self):
        self.port = free_port()
        command = [self.binary, "serve", "--no-self-scrape", "--storage", self.folder]
        command += ["--listen", f"127.0.0.1:{self.port}", "--otlp.grpc.listen", "off"]
        command += ["--retention", self.policy] if self.policy else []
        began = time.time()
        self.process = start(command, f"http://127.0.0.1:{self.port}/-/ready", self.log)
        self.opened_s = time.time() - began
        self.pid = self.process.pid

    def restart(self):
        stop(self.process)
        self.open()

    def maintain(self):
        began, before = time.time(), cpu_seconds(self.pid)
        status, body = request(self.port, "POST", "/api/v1/admin/maintenance/run", timeout=3600)
        if status >= 300:
            raise SystemExit(f"maintenance was answered with {status}: {body[:300]}")
        return time.time() - began, cpu_seconds(self.pid) - before


class VictoriaMetrics(Icecore):
    def open(self):
        self.port = free_port()
        command = [self.binary, f"-storageDataPath={self.folder}", "-retentionPeriod=2y"]
        command += [f"-httpListenAddr=127.0.0.1:{self.port}", "-search.latencyOffset=0s"]
        command += ["-search.maxPointsPerTimeseries=100000", "-search.disableCache"]
        command += ["-search.maxQueryDuration=300s"]
        self.process = start(command, f"http://127.0.0.1:{self.port}/health", self.log)
        self.pid = self.process.pid

    def maintain(self):
        began, before = time.time(), cpu_seconds(self.pid)
        request(self.port, "GET", "/internal/force_flush")
        return time.time() - began, cpu_seconds(self.pid) - before


def kept(folder, name, facts):
    """The facts of data that an earlier run has left, if they are of the same kind."""
    path = f"{folder}/{name}.json"
    if not os.path.exists(path):
        return None
    with open(path) as file:
        known = json.load(file)
    if any(known[key] != value for key, value in facts.items()):
        raise SystemExit(f"{path} is of other data: {known}")
    return known


def year(options, folder, log):
    samples = 365 * DAY // options.interval
    facts = {"series": options.series, "interval": options.interval}
    servers = [
        ("raw", lambda path: Icecore(options.icecore, path, log)),
        ("default policy", lambda path: Icecore(options.icecore, path, log, "default")),
    ]
    if options.victoriametrics:
        vm = options.victoriametrics
        servers.append(("VictoriaMetrics", lambda path: VictoriaMetrics(vm, path, log)))
    if options.only:
        servers = [server for server in servers if server[0] == options.only]
    queries = [
        ("avg(avg_over_time(temp[1d]))", 360 * DAY, "1d"),
        ("sum(rate(reqs_total[1d]))", 360 * DAY, "1d"),
        ("sum(rate(reqs_total[1d]))", 30 * DAY, "1h"),
        ('avg_over_time(temp{host="host-00000"}[1d])', 360 * DAY, "1d"),
        ('rate(reqs_total{host="host-00001"}[1d])', 360 * DAY, "1d"),
    ]
    for name, open_server in servers:
        path = f"{folder}/{name.replace(' ', '-')}"
        known = kept(folder, os.path.basename(path), facts)
        server = open_server(path)
        if not known:
            known = {**facts, "end": int(time.time()) // 3600 * 3600}
            parts = bodies(options.series, samples, options.interval, known["end"])
            wall, cpu = load(server.port, parts, server.pid)
            count = options.series * samples
            print(f"{name}: {count} samples imported in {wall:.1f} s, {cpu:.1f} CPU s")
            wall, cpu = server.maintain()
            size = directory_bytes(server.folder)
            print(f"{name}: maintenance {wall:.1f} s, {cpu:.1f} CPU s; {size / 1e6:.1f} MB")
            with open(f"{path}.json", "w") as file:
                json.dump(known, file)
        for text, span, step in queries:
            server.restart()
            # Both ends on the grid of days, so that windows answer as samples would.
            last = known["end"] // DAY * DAY
            cold, warm, value = ask(server.port, server.pid, text, last - span, last, step)
            print(
                f"{name}: {text} {span // DAY}d/{step}: cold {cold[0]:.0f} ms ({cold[1]:.0f} CPU ms), "
                f"warm {warm[0]:.1f} ms ({warm[1]:.0f} CPU ms), {peak_mib(server.pid):.0f} MiB; "
                f"last value {value}"
            )
        stop(server.process)


def buckets(options, storage):
    command = [options.icecore, "inspect", "buckets", "--storage", storage, "-o", "json"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return json.loads(output)["buckets"]


def scraped(series, counter, interval, end, days):
    """The same lines, of series that are like no others."""
    rng, times = random.Random(int(counter)), ""
    samples = days * DAY // interval
    for i in range(series):
        if i % 10 == 0:
            at = ((end - n * interval) * 1000 for n in reversed(range(samples)))
            times = ",".join(str(ms + rng.randrange(-3, 4)) for ms in at)
        labels = {
            "__name__": "reqs_total" if counter else "temp",
            "host": f"host-{i // 10:05}.rack-{i % 7}.example.com",
            "zone": f"z{i % 8}",
            "path": f"/api/v1/resource/{i % 10}",
        }
        value, parts = rng.randrange(1000), []
        for _ in range(samples):
            if counter:
                value += rng.randrange(50)
                parts.append(str(value))
            else:
                value += rng.gauss(0, 0.3)
                parts.append(f"{value:.2f}")
        values = ",".join(parts)
        yield f'{{"metric":{json.dumps(labels)},"values":[{values}],"timestamps":[{times}]}}\n'.encode()


# How long the default policy keeps its levels.
KEPT_DAYS = {"raw": 21, "5m": 90, "1h": 365}
LEVELS = {"32h": "5m", "128h": "1h", "1024h": "1h"}


def month(options, folder, log):
    end = int(time.time()) // 3600 * 3600
    for kind in ("counter", "gauge"):
        server = Icecore(options.icecore, f"{folder}/{kind}", log, "default")
        parts = scraped(options.series, kind == "counter", 15, end, 62)
        wall, cpu = load(server.port, parts, server.pid)
        print(f"{kind}: {options.series * 62 * DAY // 15} samples imported, {cpu:.1f} CPU s")
        wall, cpu = server.maintain()
        print(f"{kind}: maintenance {wall:.1f} s, {cpu:.1f} CPU s")
        stop(server.process)
        found = {}
        for bucket in buckets(options, server.folder):
            level = LEVELS.get(bucket["bucket"].split("@")[0], "raw")
            of_level = found.setdefault(level, [0, 0, 0])
            index = sum(
                size
                for record, size in bucket["fileBytes"].items()
                if record in ("BucketMeta", "ForwardIndex", "InvertedIndex", "SeriesDictionary")
            )
            # The last buckets of samples are not full yet.
            full = (bucket["endMs"] - bucket["startMs"]) / 3_600_000
            written = bucket["floatSamples"] / options.series / 240
            of_level[0] += written if level == "raw" else full
            of_level[1] += sum(bucket["fileBytes"].values()) - index
            of_level[2] += index
        year = 0
        for level, (hours, values, index) in sorted(found.items()):
            values, index = (size / hours / options.series for size in (values, index))
            year += (values + index) * 24 * KEPT_DAYS[level] * 10_000
            print(f"{kind}: {level}: {values:.1f} bytes per series-hour, index {index:.1f}")
        size = directory_bytes(server.folder)
        print(f"{kind}: {size / 1e6:.1f} MB; 10 000 series for a year {year / 1e9:.2f} GB")


def decade(options, folder, log):
    end = int(time.time()) // 3600 * 3600
    samples = 3650
    server = Icecore(options.icecore, f"{folder}/decade", log)
    wall, cpu = load(server.port, bodies(options.series, samples, DAY, end), server.pid)
    print(f"{options.series * samples} samples imported in {wall:.1f} s, {cpu:.1f} CPU s")
    wall, cpu = server.maintain()
    print(f"maintenance {wall:.1f} s, {cpu:.1f} CPU s; {directory_bytes(server.folder) / 1e6:.1f} MB")
    server.restart()
    print(f"opened in {server.opened_s:.2f} s")
    status, body = request(server.port, "GET", "/api/v1/status/tsdb")
    print(f"/api/v1/status/tsdb: {status}, {len(body)} bytes")
    for text, span, step in [
        ('temp{host="host-00000"}', 3600, "60"),
        ("count(temp)", 3600, "60"),
        ('avg_over_time(temp{host="host-00000"}[10y])', 0, "60"),
        ("avg(avg_over_time(temp[365d]))", 9 * 365 * DAY, "365d"),
    ]:
        cold, warm, _ = ask(server.port, server.pid, text, end - span, end, step)
        print(f"{text}: first {cold[0]:.1f} ms, best {warm[0]:.1f} ms")
    stop(server.process)
    listed = buckets(options, server.folder)
    print(f"{len(listed)} buckets, {len(json.dumps(listed))} bytes as JSON")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--icecore", required=True)
    parser.add_argument("--victoriametrics")
    parser.add_argument("--series", type=int, default=1_000)
    parser.add_argument("--interval", type=int, default=300)
    parser.add_argument("--keep", metavar="DIR")
    parser.add_argument("--only", help="one of the servers: raw, 'default policy', VictoriaMetrics")
    parser.add_argument("what", choices=["year", "month", "decade"])
    options = parser.parse_args()
    if options.keep:
        os.makedirs(options.keep, exist_ok=True)
    place = contextlib.nullcontext(options.keep) if options.keep else tempfile.TemporaryDirectory()
    with place as folder, open(f"{folder}/log", "w") as log:
        {"year": year, "month": month, "decade": decade}[options.what](options, folder, log)


if __name__ == "__main__":
    main()
