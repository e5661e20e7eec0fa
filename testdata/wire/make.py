"""Makes the payloads of this directory with Google's protobuf, so that the decoder is checked by
an encoder that nobody here wrote. Needs: pip install protobuf cramjam.

    python3 make.py                     writes remote-write-v1.snappy, remote-write-v2.snappy
    python3 make.py summary FILE...     what a captured 1.0 payload holds, for the test's numbers
"""

import functools
import struct
import sys

import cramjam
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

F = descriptor_pb2.FieldDescriptorProto
TYPES = {
    "double": F.TYPE_DOUBLE, "int64": F.TYPE_INT64, "uint64": F.TYPE_UINT64, "string": F.TYPE_STRING,
    "sint32": F.TYPE_SINT32, "sint64": F.TYPE_SINT64, "uint32": F.TYPE_UINT32, "int32": F.TYPE_INT32,
}
SPAN = {"BucketSpan": ["sint32 offset 1", "uint32 length 2"]}
HISTOGRAM = [
    "uint64 count_int 1 oneof:count", "double count_float 2 oneof:count", "double sum 3",
    "sint32 schema 4", "double zero_threshold 5",
    "uint64 zero_count_int 6 oneof:zero_count", "double zero_count_float 7 oneof:zero_count",
    "*BucketSpan negative_spans 8", "*sint64 negative_deltas 9", "*double negative_counts 10",
    "*BucketSpan positive_spans 11", "*sint64 positive_deltas 12", "*double positive_counts 13",
    "int32 reset_hint 14", "int64 timestamp 15", "*double custom_values 16",
]
V1 = SPAN | {
    "Label": ["string name 1", "string value 2"],
    "Sample": ["double value 1", "int64 timestamp 2"],
    "Exemplar": ["*Label labels 1", "double value 2", "int64 timestamp 3"],
    "Histogram": HISTOGRAM,
    "TimeSeries": ["*Label labels 1", "*Sample samples 2", "*Exemplar exemplars 3", "*Histogram histograms 4"],
    "MetricMetadata": ["int32 type 1", "string metric_family_name 2", "string help 4", "string unit 5"],
    "WriteRequest": ["*TimeSeries timeseries 1", "*MetricMetadata metadata 3"],
}
V2 = SPAN | {
    "Sample": ["double value 1", "int64 timestamp 2", "int64 start_timestamp 3"],
    "Exemplar": ["*uint32 labels_refs 1", "double value 2", "int64 timestamp 3"],
    "Metadata": ["int32 type 1", "uint32 help_ref 3", "uint32 unit_ref 4"],
    "Histogram": HISTOGRAM + ["int64 start_timestamp 17"],
    "TimeSeries": [
        "*uint32 labels_refs 1", "*Sample samples 2", "*Histogram histograms 3",
        "*Exemplar exemplars 4", "Metadata metadata 5", "int64 created_timestamp 6",
    ],
    "Request": ["*string symbols 4", "*TimeSeries timeseries 5"],
}


def classes(package, messages):
    """Message classes from the tables above."""
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for line in fields:
            kind, field_name, number, *rest = line.split()
            field = message.field.add(name=field_name, number=int(number))
            field.label = F.LABEL_REPEATED if kind.startswith("*") else F.LABEL_OPTIONAL
            kind = kind.lstrip("*")
            if kind in TYPES:
                field.type = TYPES[kind]
            else:
                field.type, field.type_name = F.TYPE_MESSAGE, f".{package}.{kind}"
            if rest:
                group = rest[0].removeprefix("oneof:")
                names = [one.name for one in message.oneof_decl]
                if group not in names:
                    message.oneof_decl.add(name=group)
                    names.append(group)
                field.oneof_index = names.index(group)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in messages}


STALE_NAN = struct.unpack("<d", struct.pack("<Q", 0x7FF0000000000002))[0]
INTEGER_HISTOGRAM = dict(
    count_int=12, sum=18.4, schema=3, zero_threshold=1e-128, zero_count_int=2,
    negative_spans=[dict(offset=0, length=2)], negative_deltas=[3, -1],
    positive_spans=[dict(offset=-2, length=2), dict(offset=1, length=2)], positive_deltas=[1, 1, -1, 0],
    reset_hint=2, timestamp=1700000015000,
)
FLOAT_HISTOGRAM = dict(
    count_float=3.5, sum=-4.25, schema=-53, zero_count_float=0.0,
    positive_spans=[dict(offset=1, length=2)], positive_counts=[1.25, 2.25],
    reset_hint=3, timestamp=1700000030000, custom_values=[0.5, 1.0, 2.0],
)


def v1():
    c = classes("prometheus", V1)
    labels = lambda **pairs: [dict(name=name, value=value) for name, value in pairs.items()]
    request = c["WriteRequest"](
        timeseries=[
            dict(
                labels=labels(__name__="up", instance="größe:9090", job="a"),
                samples=[dict(value=1.0, timestamp=1700000000000), dict(value=0.0, timestamp=1700000015000),
                         dict(value=STALE_NAN, timestamp=1700000030000), dict(value=-2.5, timestamp=-1)],
            ),
            dict(
                labels=labels(__name__="http_seconds"),
                exemplars=[dict(labels=labels(trace_id="abc"), value=0.25, timestamp=1700000014999)],
                histograms=[INTEGER_HISTOGRAM, FLOAT_HISTOGRAM],
            ),
        ],
        metadata=[dict(type=3, metric_family_name="http_seconds", help="How long.", unit="seconds")],
    )
    return request.SerializeToString(deterministic=True)


def v2():
    c = classes("v2", V2)
    request = c["Request"](
        symbols=["", "__name__", "up", "job", "größe", "http_seconds", "trace_id", "abc", "How long.", "seconds", "Is it up?"],
        timeseries=[
            dict(
                labels_refs=[1, 2, 3, 4],
                samples=[dict(value=1.0, timestamp=1700000000000, start_timestamp=1600000000000),
                         dict(value=0.0, timestamp=1700000015000)],
                metadata=dict(type=2, help_ref=10), created_timestamp=1500000000000,
            ),
            dict(labels_refs=[1, 2], samples=[dict(value=STALE_NAN, timestamp=1700000000000)], metadata=dict(type=2, help_ref=10)),
            dict(
                labels_refs=[1, 5],
                histograms=[INTEGER_HISTOGRAM | dict(start_timestamp=1600000000000), FLOAT_HISTOGRAM],
                exemplars=[dict(labels_refs=[6, 7], value=0.25, timestamp=1700000014999)],
                metadata=dict(type=3, help_ref=8, unit_ref=9),
            ),
        ],
    )
    return request.SerializeToString(deterministic=True)


def summary(path):
    body = bytes(cramjam.snappy.decompress_raw(open(path, "rb").read()))
    request = classes("prometheus", V1)["WriteRequest"].FromString(body)
    samples = [s for series in request.timeseries for s in series.samples]
    bits = [struct.unpack("<Q", struct.pack("<d", s.value))[0] for s in samples]
    print(path, "bytes", len(body), "series", len(request.timeseries), "samples", len(samples),
          "labels", sum(len(s.labels) for s in request.timeseries),
          "label bytes", sum(len(l.name.encode()) + len(l.value.encode()) for s in request.timeseries for l in s.labels),
          "timestamps", sum(s.timestamp for s in samples), "values", hex(functools.reduce(lambda a, b: a ^ b, bits, 0)),
          "metadata", len(request.metadata), "types", sum(m.type for m in request.metadata),
          "help bytes", sum(len(m.help.encode()) for m in request.metadata),
          "histograms", sum(len(s.histograms) for s in request.timeseries),
          "exemplars", sum(len(s.exemplars) for s in request.timeseries))


if sys.argv[1:2] == ["summary"]:
    for path in sys.argv[2:]:
        summary(path)
else:
    for name, body in [("v1", v1()), ("v2", v2())]:
        open(f"remote-write-{name}.snappy", "wb").write(bytes(cramjam.snappy.compress_raw(body)))
