import { expect, test } from 'vitest';
import { ways, type Server } from '../../src/pages/start/ways';

const server: Server = { root: 'https://tsdb.example/icecore/', grpcListen: '127.0.0.1:4317', opentsdbListen: 'off', secured: false };
const code = (patch: Partial<Server>, id: string) =>
  ways({ ...server, ...patch })
    .find((way) => way.id === id)!
    .steps.map((step) => `${step.text}\n${step.code}`)
    .join('\n');

test('lines have the address of the page with its prefix', () => {
  expect(code({}, 'remote-write')).toContain('url: https://tsdb.example/icecore/api/v1/write');
  expect(code({}, 'otlp-http')).toContain('METRICS_ENDPOINT=https://tsdb.example/icecore/v1/metrics');
  expect(code({}, 'text')).toContain('curl --data-binary @- https://tsdb.example/icecore/api/v1/import/prometheus');
  expect(code({}, 'opentsdb')).toContain('https://tsdb.example/icecore/opentsdb/api/put');
  expect(code({}, 'events')).toContain('--server https://tsdb.example/icecore -');
  expect(code({}, 'scrape')).toContain('scrape_configs');
});

test('other ports are those of the server', () => {
  expect(code({}, 'otlp-grpc')).toContain('http://tsdb.example:4317');
  expect(code({}, 'otlp-grpc')).toContain('listens on 127.0.0.1 alone');
  expect(code({ root: 'http://localhost:9090/' }, 'otlp-grpc')).not.toContain('alone');
  expect(code({ grpcListen: '[::]:5000' }, 'otlp-grpc')).toContain('http://tsdb.example:5000');
  expect(code({ grpcListen: 'off' }, 'otlp-grpc')).toContain('http://tsdb.example:443');
  expect(code({ grpcListen: null }, 'otlp-grpc')).toContain('http://tsdb.example:4317');
  expect(code({ opentsdbListen: '0.0.0.0:4242' }, 'opentsdb')).toContain('/dev/tcp/tsdb.example/4242');
});

test('credentials are named where they are needed', () => {
  for (const id of ['text', 'remote-write', 'otlp-http', 'opentsdb', 'events']) {
    expect(code({ secured: true }, id)).toContain('PASSWORD');
    expect(code({}, id)).not.toContain('PASSWORD');
  }
});
