import { expect, test } from 'vitest';
import { toSettings } from '../../src/pages/status/settings';

const yaml = `global:
  scrape_interval: 15s
icecore:
  server:
    listen: 127.0.0.1:9090                              # --listen
    web_config: ""                                      # default
  otlp:
    grpc_listen: 127.0.0.1:4317                         # default
    resource_attributes: "a # b"                        # /etc/icecore.yml 4:5
  retention: off                                        # ICECORE_RETENTION
  head:
    flush_bytes: 1GiB                                   # default
      listen: not a setting                             # default
scrape_configs:
  server:
    listen: x                                           # default
`;

test('settings know where they came from', () => {
  const flags = { listen: '127.0.0.1:9090', 'otlp.grpc.listen': '127.0.0.1:4317', 'otlp.resource-attributes': 'a # b', retention: 'off', 'head.flush-bytes': '1GiB', 'storage.other': 'x' };
  expect(toSettings(flags, yaml).map(({ source }) => source)).toEqual(['--listen', 'default', '/etc/icecore.yml 4:5', 'ICECORE_RETENTION', 'default', null]);
  expect(toSettings({ a: 'b' }, '')).toEqual([{ flag: 'a', value: 'b', source: null }]);
});
