#!/usr/bin/env python3
"""Sends the same requests to Icecore and to a real Prometheus 3.15 and compares the answers.

    scripts/compare-api.py --prometheus /path/to/prometheus [--icecore target/debug/icecore]

Both get the same samples and scrape the same (unreachable) target. Status, errorType, error and
data have to be the same. What differs on purpose is listed in EXPECTED with its reason, and in
docs/http-api.md; anything else, and a listed difference that is none, ends the run with 1.

Prometheus 3.15 is built from its Go module: CONTRIBUTING.md says how.
"""

import argparse
import json
import re
import struct
import sys
import tempfile
import time
import urllib.parse
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from bench_server import free_port, request, start, stop

# A whole hour, so that both keep the same hours.
T0 = 1_699_999_200
FEATURES = (
    "exemplar-storage,promql-experimental-functions,promql-duration-expr,promql-per-step-stats,"
    "promql-extended-range-selectors,promql-binop-fill-modifiers,search-api"
)
CONFIG = """\
global:
  scrape_interval: 1h
scrape_configs:
  - job_name: node
    static_configs:
      - targets: ["127.0.0.1:9"]
    relabel_configs:
      - source_labels: [__address__]
        target_label: instance
      - source_labels: [instance]
        regex: other.*
        action: drop
"""

# What is not the same, by a pattern of the request: the reason is in docs/http-api.md, too.
EXPECTED = [
    (r"/query_exemplars\?.*query=(1|%22text%22|vector.*)$", "204 without a body: against its schema"),
    (r"timeout=0", "one of several errors, by chance"),
    (r"/(series|labels|label/job/values|query_exemplars)\?.*(start|end)=NaN", "an error here"),
    (r"/(series|labels|label/job/values)\?.*(end=-5|start=9&end=1)$", "an end before the start"),
    (r"/label/no%2Fsuch/values", "no such path there, a label here"),
    (r"/targets\?state=(active|ACTIVE|x)$", "null, against its schema"),
    (r"/scrape_pools/config\?scrapePool=node$", "lists and quotes of YAML are written in another way"),
    (r"/relabel_steps\?.*labels=x$", "the reason of another JSON parser"),
    (r"/(features|status/config|status/runtimeinfo|status/buildinfo|status/flags)\?$", "the program"),
    (r"/status/tsdb\?(limit=1|limit=10000)?$", "chunks, bytes and the order of equal counts"),
    (r"/self_metrics\?.*%28", "the pattern is shown as it was given"),
    (r"/search/metric_names\?[^_]*limit=1(&include_score=true)?$", "the first name in order here"),
    (r"GET /nothing|GET /query/\?|(DELETE|PUT) ", "JSON here, text or a wrong place there"),
]


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number, content):
    return varint(number << 3 | 2) + varint(len(content)) + content


def series(labels, samples):
    """A `TimeSeries` of remote write 1.0."""
    out = b""
    for name, value in sorted(labels.items()):
        out += field(1, field(1, name.encode()) + field(2, value.encode()))
    for at, value in samples:
        sample = b"\x09" + struct.pack("<d", value) + b"\x10" + varint(at * 1000)
        out += field(2, sample)
    return field(1, out)


def snappy(plain):
    """Snappy without compression: literals of up to 60 bytes."""
    out = varint(len(plain))
    for begin in range(0, len(plain), 60):
        part = plain[begin : begin + 60]
        out += bytes([(len(part) - 1) << 2]) + part
    return out


def payload():
    times = [T0 + step * 15 for step in range(240)]
    message = b""
    for job, instance, scale in [("api", "a", 1), ("api", "b", 2), ("web", "a", 3)]:
        labels = {"__name__": "http_requests_total", "job": job, "instance": instance}
        message += series(labels, [(at, (at - T0) * scale) for at in times])
        gauge = {"__name__": "memory_bytes", "job": job, "instance": instance}
        message += series(gauge, [(at, 1e6 * scale + at % 97) for at in times])
    for le, count in [("0.1", 1), ("1", 2), ("+Inf", 3)]:
        labels = {"__name__": "latency_seconds_bucket", "job": "api", "le": le}
        message += series(labels, [(at, (at - T0) * count) for at in times])
    message += series({"__name__": "größe", "ä.b": "ü"}, [(times[0], 1.5)])
    return snappy(message)


def requests():
    """Method, path and parameters of every request."""
    end = T0 + 3600
    at = [("time", str(T0 + 1800))]
    span = [("start", str(T0)), ("end", str(end))]
    ranged = span + [("step", "60")]
    sums = [
        "http_requests_total",
        "sum by(job) (rate(http_requests_total[5m]))",
        "1",
        '"text"',
        "histogram_quantile(0.9, latency_seconds_bucket)",
        "http_requests_total[1m]",
        "absent(nothing)",
        "topk(1, max by(job) (memory_bytes))",
        "http_requests_total / 0",
        "{__name__=~\"memory.*\", job!=\"web\"}",
        "sum(http_requests_total) by (instance) > bool 5",
        "max_over_time(memory_bytes[10m:1m] offset 5m)",
        "http_requests_total @ end()",
        "quantile(2, memory_bytes)",
        '{"größe"}',
        "limitk(1, memory_bytes)",
        "rate(memory_bytes[5m])",
        "vector(time())",
        "label_replace(http_requests_total, \"x\", \"$1\", \"job\", \"(.*)\")",
        "memory_bytes and on(job) http_requests_total{instance=\"b\"}",
    ]
    broken = ["", "sum(", "rate(http_requests_total)", "a b", "{}", "foo[5m:", "1 +", "sum(1) by",
              "http_requests_total{", "\"", "unknown_function(1)", "memory_bytes @ x", "x[0s]"]
    for query in sums + broken:
        yield "GET", "/query", at + [("query", query)]
        yield "GET", "/query_range", ranged + [("query", query)]
        yield "POST", "/format_query", [("query", query)]
        yield "GET", "/parse_query", [("query", query)]
        yield "GET", "/query_exemplars", span + [("query", query)]
    up = ("query", "memory_bytes")
    for extra in [
        [("limit", "1")], [("limit", "-1")], [("limit", "x")], [("limit", "0")],
        [("timeout", "10s")], [("timeout", "x")], [("timeout", "0")],
        [("lookback_delta", "1s")], [("lookback_delta", "x")],
    ]:
        yield "GET", "/query", at + [up] + extra
        yield "POST", "/query_range", ranged + [up] + extra
    for when in ["", "x", "1699999999.5", "2023-11-14T22:30:00Z", "1e3", "NaN", "-5", "2023-13-01T00:00:00Z"]:
        yield "GET", "/query", [("query", "vector(1)"), ("time", when)] if when else [("query", "count(memory_bytes)")]
        for path in ["/labels", "/label/job/values", "/series", "/query_exemplars"]:
            yield "GET", path, [("match[]", "memory_bytes"), up, ("start", when)]
            yield "GET", path, [("match[]", "memory_bytes"), up, ("end", when)]
    for start_, end_, step in [
        ("x", "1", "1"), ("1", "x", "1"), ("2", "1", "1"), ("1", "2", "0"), ("1", "2", "-1"),
        ("1", "2", "x"), ("0", "1e9", "1"), ("", "1", "1"), (str(T0), str(end), "1m"),
        (str(T0), str(end), "90.5"), (str(T0), str(T0), "1"),
    ]:
        yield "GET", "/query_range", [up, ("start", start_), ("end", end_), ("step", step)]
    selectors = [
        [], ["memory_bytes"], ["{job=\"api\"}", "{instance=\"b\"}"], ["{}"], ["{job=~\".*\"}"],
        ["nothing"], ["memory_bytes{"], ["{job=~\"(\"}"], ["sum(up)"], ["{\"größe\"}"],
    ]
    for chosen in selectors:
        matches = [("match[]", selector) for selector in chosen]
        for path in ["/series", "/labels", "/label/job/values", "/label/__name__/values"]:
            yield "GET", path, matches + span
            yield "GET", path, matches
        yield "POST", "/series", matches + span
        yield "POST", "/labels", matches + span
        yield "GET", "/rules", matches
    for extra in [[("limit", "1")], [("limit", "-1")], [("limit", "x")], [("start", "9"), ("end", "1")]]:
        for path in ["/series", "/labels", "/label/job/values"]:
            yield "GET", path, [("match[]", "memory_bytes")] + extra
    for name in ["U__gr_F6__e4_df_e", "%C3%A4.b", "U___e4__2e_b", "no%2Fsuch", "1x", "job"]:
        yield "GET", f"/label/{name}/values", span
    for extra in [[], [("limit", "1")], [("limit", "x")], [("metric", "nothing")], [("limit_per_metric", "x")]]:
        yield "GET", "/metadata", extra
        yield "GET", "/targets/metadata", extra
    yield "GET", "/targets/metadata", [("match_target", "{")]
    for state in ["", "active", "dropped", "any", "ACTIVE", "x"]:
        yield "GET", "/targets", [("state", state)]
    yield "GET", "/targets", [("scrapePool", "nothing")]
    yield "GET", "/scrape_pools", []
    for name in ["", "node", "nothing"]:
        yield "GET", "/scrape_pools/config", [("scrapePool", name)]
        for labels in ["", "{}", "x", '{"__address__":"a:1"}', '{"__address__":"other:1","b":"c"}']:
            yield "GET", "/targets/relabel_steps", [("scrapePool", name), ("labels", labels)]
    for extra in [
        [], [("type", "alert")], [("type", "x")], [("exclude_alerts", "true")],
        [("exclude_alerts", "x")], [("group_limit", "1")], [("group_limit", "0")],
        [("group_limit", "x")], [("group_next_token", "x")],
        [("group_limit", "99999999999"), ("group_next_token", "x")],
        [("group_limit", "1"), ("group_next_token", "x")], [("rule_name[]", "a"), ("file[]", "b")],
    ]:
        yield "GET", "/rules", extra
    for path in ["/alerts", "/alertmanagers", "/notifications", "/features", "/status/config",
                 "/status/runtimeinfo", "/status/buildinfo", "/status/flags", "/status/tsdb",
                 "/status/tsdb/blocks", "/status/walreplay", "/nothing", "/query/"]:
        yield "GET", path, []
    for limit in ["1", "0", "-1", "x", "10000", "10001"]:
        yield "GET", "/status/tsdb", [("limit", limit)]
    for pattern in ["(", "nothing", "up"]:
        yield "GET", "/status/self_metrics", [("metric_name_pattern", pattern)]
    for what in ["metric_names", "label_names", "label_values"]:
        path = f"/search/{what}"
        base = span + ([("label", "instance")] if what == "label_values" else [])
        for extra in [
            [], [("search[]", "e")], [("search[]", "hrt")], [("search[]", "byt"), ("search[]", "req")],
            [("search[]", "MEM")], [("search[]", "MEM"), ("case_sensitive", "false")],
            [("search[]", "memory"), ("fuzz_alg", "jarowinkler"), ("fuzz_threshold", "50")],
            [("search[]", "reqests"), ("fuzz_alg", "jarowinkler"), ("fuzz_threshold", "40")],
            [("search[]", "ß"), ("fuzz_threshold", "10")], [("search[]", "b"), ("fuzz_threshold", "90")],
            [("search[]", "")], [("limit", "1")], [("batch_size", "1")], [("match[]", "memory_bytes")],
            [("sort_by", "alpha"), ("sort_dir", "dsc")], [("sort_by", "alpha")],
            [("sort_by", "score"), ("search[]", "es")], [("sort_by", "score"), ("search[]", "es"), ("limit", "1")],
        ]:
            yield "GET", path, base + extra + [("include_score", "true")]
            yield "POST", path, base + extra
        for extra in [
            [("fuzz_threshold", "x")], [("fuzz_threshold", "101")], [("fuzz_alg", "x")],
            [("case_sensitive", "x")], [("include_score", "x")], [("sort_by", "x")],
            [("sort_dir", "asc")], [("sort_by", "score")], [("sort_by", "alpha"), ("sort_dir", "x")],
            [("sort_by", "score"), ("sort_dir", "asc")], [("limit", "0")], [("limit", "10001")],
            [("limit", "x")], [("batch_size", "0")], [("match[]", "{}")], [("match[]", "a{")],
            [("start", "x")], [("end", "x")], [("start", "2"), ("end", "1")], [("search[]", "a")] * 33,
        ]:
            # The first value of a parameter counts.
            yield "GET", path, extra + base
    yield "GET", "/search/label_values", span
    yield "DELETE", "/query", []
    yield "PUT", "/labels", []


def ordered(path, params, answer):
    """The answer with lists that have no order of their own in one order."""
    status, body = answer
    query = dict(params).get("query", "")
    data = body.get("data") if isinstance(body, dict) else None
    # Sorted results have their order from the query.
    if path == "/series" and data or path == "/query" and isinstance(data, dict) and "topk" not in query:
        items = data if path == "/series" else data["result"]
        if isinstance(items, list) and items and isinstance(items[0], dict):
            items.sort(key=lambda item: json.dumps(item, sort_keys=True))
    if path == "/targets" and isinstance(data, dict):
        for target in data["activeTargets"]:
            # When it was scraped last, and which name others have for this machine.
            for key in ("lastScrape", "lastScrapeDuration", "globalUrl", "lastError", "health"):
                target[key] = None
    return status, body


def named(method, path, params):
    return f"{method} {path}?{urllib.parse.urlencode(params)}"


def ask(port, method, path, params):
    form = urllib.parse.urlencode(params)
    headers = {"Content-Type": "application/x-www-form-urlencoded"} if method == "POST" else {}
    target = f"/api/v1{path}" + (f"?{form}" if form and method != "POST" else "")
    status, body = request(port, method, target, form if method == "POST" else None, headers)
    try:
        lines = [json.loads(line) for line in body.decode().splitlines()]
        return status, lines[0] if len(lines) == 1 else lines
    except ValueError:
        return status, body.decode(errors="replace")


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    arguments.add_argument("--prometheus", required=True, help="the program of Prometheus 3.15")
    arguments.add_argument("--icecore", default="target/debug/icecore")
    arguments.add_argument("--verbose", action="store_true", help="show both answers of each difference")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "prometheus.yml")
        config.write_text(CONFIG, encoding="utf-8")
        ports = [free_port(), free_port()]
        with open(Path(folder, "log"), "w", encoding="utf-8") as log:
            theirs = start(
                [options.prometheus, f"--config.file={config}", f"--storage.tsdb.path={folder}/tsdb",
                 f"--web.listen-address=127.0.0.1:{ports[0]}", "--web.enable-remote-write-receiver",
                 f"--enable-feature={FEATURES}"],
                f"http://127.0.0.1:{ports[0]}/-/ready", log)
            try:
                ours = start(
                    [options.icecore, "serve", "--storage", "memory://", "--config", str(config),
                     "--listen", f"127.0.0.1:{ports[1]}"],
                    f"http://127.0.0.1:{ports[1]}/-/ready", log)
                try:
                    return compare(ports, options.verbose)
                finally:
                    stop(ours)
            finally:
                stop(theirs)


def compare(ports, verbose):
    headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy",
               "X-Prometheus-Remote-Write-Version": "0.1.0"}
    for port in ports:
        status, body = request(port, "POST", "/api/v1/write", payload(), headers)
        if status not in (200, 204):
            sys.exit(f"the samples were not taken: {status} {body}")
        # Prometheus takes some seconds to find targets.
        while not ask(port, "GET", "/targets", [])[1]["data"]["activeTargets"]:
            time.sleep(0.2)
    count, same, unlisted, used = 0, 0, [], set()
    for method, path, params in requests():
        count += 1
        name = named(method, path, params)
        theirs, ours = (ordered(path, params, ask(port, method, path, params)) for port in ports)
        reasons = [(pattern, reason) for pattern, reason in EXPECTED if re.search(pattern, name)]
        if theirs == ours:
            same += 1
            continue
        used |= {pattern for pattern, _ in reasons}
        if reasons and not verbose:
            continue
        shown = [json.dumps(answer, ensure_ascii=False)[:400] for answer in (theirs, ours)]
        print(f"{'listed' if reasons else 'DIFFERS'}: {name}\n  Prometheus: {shown[0]}\n  Icecore:    {shown[1]}")
        if not reasons:
            unlisted.append(name)
    idle = [pattern for pattern, _ in EXPECTED if pattern not in used]
    print(f"{same} of {count} answers are the same, {count - same - len(unlisted)} differ as listed, "
          f"{len(unlisted)} do not")
    for pattern in idle:
        print(f"listed, and the same now: {pattern}")
    return bool(unlisted or idle)


if __name__ == "__main__":
    sys.exit(main())
