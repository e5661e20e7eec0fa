"""Captures remote read answers of a real Prometheus, so that our chunks are checked against bytes that
nobody here wrote. Needs Debian's prometheus 2.42 and nothing else.

    python3 capture_read.py [DIRECTORY]    writes prometheus-2.42-read.written, .samples and .frames

It writes series by remote write, then reads the same query in both forms. Of 2.42 the sampled form has
floats only, and the streamed form breaks off at gauge histograms, so that none are written.
"""

import math
import os
import random
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request

ADDRESS = "127.0.0.1:19988"
T0 = 1_700_000_000_000
STALE = 0x7FF0000000000002


def varint(value):
    out = b""
    value &= (1 << 64) - 1
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def zigzag(value):
    return value << 1 ^ value >> 63


def number(field, value):
    return varint(field << 3) + varint(value)


def double(field, value):
    bits = value if isinstance(value, int) else struct.unpack("<Q", struct.pack("<d", value))[0]
    return varint(field << 3 | 1) + struct.pack("<Q", bits)


def chunk(field, value):
    value = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(value)) + value


def snappy(body):
    """Literals only, which is valid."""
    out = varint(len(body))
    for at in range(0, len(body), 60):
        piece = body[at : at + 60]
        out += bytes([len(piece) - 1 << 2]) + piece
    return out


def series(name, content):
    labels = chunk(1, chunk(1, "__name__") + chunk(2, name)) + chunk(1, chunk(1, "job") + chunk(2, "capture"))
    return chunk(1, labels + content)


def floats(samples):
    return b"".join(chunk(2, double(1, v) + number(2, t)) for t, v in samples)


def spans(field, spans):
    return b"".join(chunk(field, number(1, zigzag(o)) + number(2, n)) for o, n in spans)


def integer_histogram(t, counts, total, pos_spans, neg=(), neg_spans=(), zero=0, hint=0, threshold=2.0**-128, schema=3):
    def deltas(values):
        return b"".join(varint(zigzag(b - a)) for a, b in zip([0, *values], values))

    return chunk(
        4,
        number(1, sum(counts) + sum(neg) + zero) + double(3, total) + number(4, zigzag(schema)) + double(5, threshold)
        + number(6, zero) + spans(8, neg_spans) + (chunk(9, deltas(neg)) if neg else b"")
        + spans(11, pos_spans) + chunk(12, deltas(counts)) + number(14, hint) + number(15, t),
    )


def float_histogram(t, counts, total, pos_spans, zero=0.0, hint=0, threshold=0.001, schema=0):
    packed = b"".join(struct.pack("<d", c) for c in counts)
    return chunk(
        4,
        double(2, sum(counts) + zero) + double(3, total) + number(4, zigzag(schema)) + double(5, threshold)
        + double(7, zero) + spans(11, pos_spans) + chunk(13, packed) + number(14, hint) + number(15, t),
    )


def all_series():
    r = random.Random(7)
    steps = [T0 + 15_000 * i + r.choice([0, 0, 0, 1, -1, 700, -900]) for i in range(300)]
    yield series("a_counter", floats((t, float(i * 37 // 3)) for i, t in enumerate(steps)))
    yield series("b_noise", floats((t, r.gauss(0, 1e3)) for t in steps))
    special = [0.0, -0.0, math.inf, -math.inf, STALE, 1e-300, 1e300, 5e-324, 0x7FF8000000000001]
    yield series("c_special", floats((T0 + i * i * 977, v) for i, v in enumerate(special * 4)))
    gaps = [T0, T0 + 1, T0 + 2_000_000, T0 + 2_000_001, T0 + 3_500_000]
    yield series("d_gaps", floats((t, 1.5) for t in gaps))
    counts, out = [3, 0, 5, 1], b""
    for i in range(100):
        counts = [c + r.randrange(0, 10 ** (i % 5)) for c in counts]
        out += integer_histogram(
            T0 + 15_000 * i, counts, sum(counts) * 0.37, [(-5, 2), (3, 2)],
            neg=[i + 1], neg_spans=[(2, 1)], zero=i * 1000,
        )
    # A wider layout, then a reset.
    for i in range(100, 130):
        counts = [c + 1 for c in counts]
        wider = counts[:2] + [7] + counts[2:]
        out += integer_histogram(
            T0 + 15_000 * i, wider, sum(wider) * 0.5, [(-5, 3), (2, 2)],
            neg=[i + 1], neg_spans=[(2, 1)], zero=i * 1000,
        )
    for i in range(130, 140):
        out += integer_histogram(T0 + 15_000 * i, [i, 1], 1.25, [(0, 2)], zero=0, threshold=0.0, schema=-2)
    yield series("e_histogram", out)
    out = b"".join(
        float_histogram(T0 + 15_000 * i, [0.5 * i, 2.0, 1e9 + i], i * 0.1, [(0, 1), (4, 2)], zero=float(i))
        for i in range(50)
    )
    yield series("f_float_histogram", out)


def post(path, body, headers=()):
    request = urllib.request.Request(f"http://{ADDRESS}{path}", body, dict(headers), method="POST")
    return urllib.request.urlopen(request).read()


def read_request(accepted):
    matcher = chunk(3, number(1, 0) + chunk(2, "job") + chunk(3, "capture"))
    query = number(1, T0 - 1000) + number(2, T0 + 10_000_000) + matcher
    return chunk(1, query) + (number(2, accepted) if accepted else b"")


def main():
    target = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    with tempfile.TemporaryDirectory() as directory:
        config = os.path.join(directory, "prometheus.yml")
        open(config, "w").write("global: {}\n")
        process = subprocess.Popen(
            ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={directory}/data",
             f"--web.listen-address={ADDRESS}", "--web.enable-remote-write-receiver",
             "--enable-feature=native-histograms", "--log.level=warn", "--storage.tsdb.retention.time=100y"],
        )
        try:
            for _ in range(100):
                try:
                    urllib.request.urlopen(f"http://{ADDRESS}/-/ready")
                    break
                except OSError:
                    time.sleep(0.1)
            headers = [("Content-Type", "application/x-protobuf"), ("Content-Encoding", "snappy")]
            # In one request: a later one could not go back by more than an hour.
            written = snappy(b"".join(all_series()))
            open(os.path.join(target, "prometheus-2.42-read.written"), "wb").write(written)
            post("/api/v1/write", written, headers)
            for accepted, name in [(0, "samples"), (1, "frames")]:
                answer = post("/api/v1/read", snappy(read_request(accepted)), headers)
                open(os.path.join(target, f"prometheus-2.42-read.{name}"), "wb").write(answer)
                print(name, len(answer))
        finally:
            process.terminate()
            process.wait()


main()
