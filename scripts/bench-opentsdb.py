#!/usr/bin/env python3
"""What OpenTSDB's protocols cost: CPU seconds per million points for icecore and, if given, for
VictoriaMetrics in the same minutes; and how long a query of a day takes.

    python3 scripts/bench-opentsdb.py --icecore target/release/icecore --victoriametrics victoria-metrics

Points: --points of 1 000 series, put in batches of 50 and of 500, and sent as telnet lines, over
--connections, each of which has some of the series. The query is sum:1m-avg:rate over 1 000 series of a
day at 10 s. What the sender takes is not counted. --folder is where the data lies: each batch is synced
to it before it is answered, so a batch of 50 costs what the file system takes for that.
"""

import argparse
import http.client
import json
import socket
import tempfile
import threading
import time

from bench_server import cpu_seconds, free_port, peak_mib, request, start, stop

SERIES = 1_000
DAY = 86_400
# As in the original, longer bodies than 8 KiB must be allowed.
SETTINGS = ",".join(
    [
        "tsd.core.auto_create_metrics=true",
        "tsd.http.request.enable_chunked=true",
        "tsd.http.request.max_chunk=1048576",
    ]
)


def point(i, base):
    series, step = i % SERIES, i // SERIES
    return base + step * 10, step * 7 % 1000 + series, series


def parts(make, points, base, batch, metric, connections):
    """What each connection sends: all points of its series, in time order."""
    shares = [[] for _ in range(connections)]
    for i in range(points):
        shares[i % SERIES % connections].append(i)
    return [
        [make([point(i, base) for i in share[at : at + batch]], metric) for at in range(0, len(share), batch)]
        for share in shares
    ]


def body(points, metric):
    return json.dumps(
        [
            {
                "metric": metric,
                "timestamp": at,
                "value": value,
                "tags": {"host": f"web{series:04}", "dc": f"dc{series % 4}"},
            }
            for at, value, series in points
        ]
    ).encode()


def lines(points, metric):
    return "".join(
        f"put {metric} {at} {value} host=web{series:04} dc=dc{series % 4}\n" for at, value, series in points
    ).encode()


def put(port, path, parts):
    """One connection for each of the parts."""

    refused = []

    def send(mine):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        for body in mine:
            connection.request("POST", path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            content = answer.read()
            if answer.status >= 300:
                refused.append(f"put was answered with {answer.status}: {content[:200]}")
                return

    threads = [threading.Thread(target=send, args=(mine,)) for mine in parts]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    if refused:
        raise SystemExit(refused[0])


def telnet(port, parts):
    def send(mine):
        with socket.create_connection(("127.0.0.1", port)) as connection:
            for part in mine:
                connection.sendall(part)
            connection.sendall(b"exit\n")
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass

    threads = [threading.Thread(target=send, args=(mine,)) for mine in parts]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]


def measure(name, pid, points, send):
    before, began = cpu_seconds(pid), time.time()
    send()
    seconds = time.time() - began
    cpu = cpu_seconds(pid) - before
    per_second = points / seconds
    print(f"{name:40} {cpu / points * 1e6:6.2f} CPU s per million, {per_second:9.0f} points/s")


def count(port, metric, expected):
    """Waits until all points can be read: some servers answer before they are."""
    deadline = time.time() + 60
    query = f"/api/v1/query?query=sum(count_over_time(%7B__name__%3D%22{metric}%22%7D%5B2d%5D))"
    while time.time() < deadline:
        status, body = request(port, "GET", query)
        result = json.loads(body)["data"]["result"] if status == 200 else []
        if result and float(result[0]["value"][1]) >= expected:
            return
        time.sleep(0.5)
    print(f"  {metric}: not all points can be read: {result}")


def run(name, process, ports, points, connections, now):
    http_port, tsd_http, tsd_line = ports
    pid = process.pid
    base = (now - points // SERIES * 10 - 60) // 10 * 10
    for batch in (50, 500):
        metric = f"put.batch{batch}"
        sent = parts(body, points, base, batch, metric, connections)
        measure(f"{name}: put, batches of {batch}", pid, points, lambda: put(tsd_http, "/api/put", sent))
        count(http_port, metric, points)
    sent = parts(lines, points, base, 500, "telnet.lines", connections)
    measure(f"{name}: telnet", pid, points, lambda: telnet(tsd_line, sent))
    count(http_port, "telnet.lines", points)
    print(f"{name}: peak memory {peak_mib(pid):.0f} MiB")


def query_of_a_day(port, now):
    base = (now - DAY - 60) // 10 * 10
    points = SERIES * DAY // 10
    telnet(port, parts(lines, points, base, 500, "day.counter", 2))
    query = json.dumps(
        {
            "start": base,
            "end": base + DAY,
            "queries": [
                {
                    "metric": "day.counter",
                    "aggregator": "sum",
                    "downsample": "1m-avg",
                    "rate": True,
                }
            ],
        }
    )
    times = []
    for _ in range(7):
        began = time.time()
        status, content = request(port, "POST", "/api/query", query)
        times.append(time.time() - began)
        if status != 200 or len(json.loads(content)[0]["dps"]) < 1400:
            raise SystemExit(f"the query was answered with {status}: {content[:200]}")
    print(
        f"sum:1m-avg:rate over {SERIES} series of a day at 10 s: first {times[0] * 1e3:.0f} ms, "
        f"best {min(times) * 1e3:.0f} ms"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--icecore", required=True)
    parser.add_argument("--victoriametrics")
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--connections", type=int, default=2)
    parser.add_argument("--folder", help="where the data lies; a temporary directory otherwise")
    options = parser.parse_args()
    now = int(time.time())
    with tempfile.TemporaryDirectory(dir=options.folder) as folder, open(f"{folder}/log", "w") as log:
        web, tsd = free_port(), free_port()
        command = [options.icecore, "serve", "--no-self-scrape", "--storage", f"{folder}/icecore"]
        command += ["--listen", f"127.0.0.1:{web}", "--opentsdb.listen", f"127.0.0.1:{tsd}"]
        command += ["--opentsdb.settings", SETTINGS]
        command += ["--otlp.grpc.listen", "off"]
        process = start(command, f"http://127.0.0.1:{web}/-/ready", log)
        run("icecore", process, (web, tsd, tsd), options.points, options.connections, now)
        query_of_a_day(tsd, now)
        stop(process)
        if options.victoriametrics:
            web, lines_port, put_port = free_port(), free_port(), free_port()
            command = [options.victoriametrics, f"-storageDataPath={folder}/vm", "-retentionPeriod=1y"]
            command += [f"-httpListenAddr=127.0.0.1:{web}", f"-opentsdbListenAddr=127.0.0.1:{lines_port}"]
            command += [f"-opentsdbHTTPListenAddr=127.0.0.1:{put_port}", "-search.latencyOffset=0s"]
            process = start(command, f"http://127.0.0.1:{web}/health", log)
            run("VictoriaMetrics", process, (web, put_port, lines_port), options.points, options.connections, now)
            stop(process)


if __name__ == "__main__":
    main()
