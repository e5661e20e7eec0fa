// The ways to send data, as lines that can be copied, for the address at which the page was opened.

export interface Server {
  /** The API root with a trailing slash: `http://host:9090/`. */
  root: string;
  /** Values of `--otlp.grpc.listen` and `--opentsdb.listen`; null when they are not known. */
  grpcListen: string | null;
  opentsdbListen: string | null;
  /** Whether requests need a credential. */
  secured: boolean;
}

export interface Step {
  text: string;
  code: string;
}

export interface Way {
  id: string;
  title: string;
  steps: Step[];
  /** PromQL that shows what was sent. */
  query: string;
}

export function ways(server: Server): Way[] {
  return [text(server), scrape(server), remoteWrite(server), otlpHttp(server), otlpGrpc(server), openTsdb(server), events(server)];
}

const curl = ({ secured }: Server) => (secured ? 'curl -u USER:PASSWORD' : 'curl');
const cli = ({ secured, root }: Server) => `--server ${root.replace(/\/$/, '')}${secured ? ' --user USER --password-file FILE' : ''}`;

function text(server: Server): Way {
  return {
    id: 'text',
    title: 'Text with curl',
    steps: [
      {
        text: 'A sample in Prometheus’ text format, without a timestamp: it gets the server’s time.',
        code: `echo 'room_temperature_celsius{room="kitchen"} 21.5' |\n  ${curl(server)} --data-binary @- ${server.root}api/v1/import/prometheus`,
      },
      {
        text: 'A whole page of metrics of some exporter, with a label added:',
        code: `curl -s http://localhost:9100/metrics |\n  ${curl(server)} --data-binary @- '${server.root}api/v1/import/prometheus?extra_label=job=node'`,
      },
    ],
    query: 'room_temperature_celsius',
  };
}

function scrape(server: Server): Way {
  return {
    id: 'scrape',
    title: 'Scrape',
    steps: [
      {
        text: 'Targets go into a file in Prometheus’ format; an existing prometheus.yml works.',
        code: `# icecore.yml\nscrape_configs:\n  - job_name: node\n    static_configs:\n      - targets: ['localhost:9100']`,
      },
      { text: 'Start the server with it:', code: 'icecore serve --config icecore.yml' },
      { text: 'Later changes are read without a restart:', code: `${curl(server)} -X POST ${server.root}-/reload` },
    ],
    query: 'up',
  };
}

function remoteWrite({ root, secured }: Server): Way {
  const credential = secured ? '\n    basic_auth:\n      username: USER\n      password: PASSWORD' : '';
  return {
    id: 'remote-write',
    title: 'Remote write',
    steps: [{ text: 'For Prometheus and every agent that speaks its protocol:', code: `# prometheus.yml\nremote_write:\n  - url: ${root}api/v1/write${credential}` }],
    query: 'up',
  };
}

function otlpHttp({ root, secured }: Server): Way {
  const header = secured ? `\nOTEL_EXPORTER_OTLP_METRICS_HEADERS=authorization=Basic%20$(printf USER:PASSWORD | base64)` : '';
  return {
    id: 'otlp-http',
    title: 'OTLP, HTTP',
    steps: [
      {
        text: 'The environment of a program with an OpenTelemetry SDK:',
        code: `OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=${root}v1/metrics\nOTEL_EXPORTER_OTLP_METRICS_PROTOCOL=http/protobuf${header}`,
      },
      { text: 'An exporter of the OpenTelemetry collector:', code: `exporters:\n  otlphttp/icecore:\n    metrics_endpoint: ${root}v1/metrics` },
    ],
    query: 'target_info',
  };
}

function otlpGrpc(server: Server): Way {
  const { host, note } = portOf(server.root, server.grpcListen, '4317');
  return {
    id: 'otlp-grpc',
    title: 'OTLP, gRPC',
    steps: [
      {
        text: `The environment of a program with an OpenTelemetry SDK.${note}`,
        code: `OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=http://${host}\nOTEL_EXPORTER_OTLP_METRICS_PROTOCOL=grpc`,
      },
      { text: 'An exporter of the OpenTelemetry collector:', code: `exporters:\n  otlp/icecore:\n    endpoint: ${host}\n    tls:\n      insecure: true` },
    ],
    query: 'target_info',
  };
}

function openTsdb(server: Server): Way {
  const point = `{"metric":"room.temperature","timestamp":'$(date +%s)',"value":21.5,"tags":{"room":"kitchen"}}`;
  const steps: Step[] = [
    {
      text: 'A point by HTTP. With a file of OpenTSDB (--opentsdb.config), a metric needs a UID first, unless that sets tsd.core.auto_create_metrics.',
      code: `${curl(server)} ${server.root}opentsdb/api/put -d '${point}'`,
    },
  ];
  if (server.opentsdbListen !== null && server.opentsdbListen !== 'off' && server.opentsdbListen !== '') {
    const { host, note } = portOf(server.root, server.opentsdbListen, '4242');
    const [name, port] = split(host);
    steps.push({
      text: `Telnet lines.${note}`,
      code: `echo "put room.temperature $(date +%s) 21.5 room=kitchen" > /dev/tcp/${name}/${port}`,
    });
  } else {
    steps.push({ text: 'For telnet lines and clients that expect port 4242, start the server so:', code: 'icecore serve --opentsdb.listen 127.0.0.1:4242' });
  }
  return { id: 'opentsdb', title: 'OpenTSDB', steps, query: '{"room.temperature"}' };
}

function events(server: Server): Way {
  const documents = `apiVersion: obsinity/v1
kind: Event
metadata: { service: shop, name: order.placed }
spec:
  schema:
    type: object
    properties:
      order: { type: object, properties: { channel: { type: string, index: true } } }
---
apiVersion: obsinity/v1
kind: MetricCounter
metadata: { service: shop, event: order.placed, name: orders }
spec: { key: { dimensions: [order.channel] } }`;
  const event = `{
  "event":{"name":"order.placed"},"resource":{"service":{"id":"shop"}},
  "time":{"startedAt":"'$(date -u +%FT%TZ)'"},"attributes":{"order":{"channel":"web"}}}`;
  return {
    id: 'events',
    title: 'Events',
    steps: [
      { text: 'Types of events are registered first, here with a counter:', code: `icecore events apply ${cli(server)} - <<'END'\n${documents}\nEND` },
      { text: 'Then services publish them:', code: `${curl(server)} -H 'Content-Type: application/json' \\\n  ${server.root}events/publish -d '${event}'` },
    ],
    query: 'sum by (order_channel) (increase(orders_total[5m]))',
  };
}

/** Host and port of another port of the same server, and what to know about it. */
function portOf(root: string, listen: string | null, usual: string): { host: string; note: string } {
  const url = new URL(root);
  const own = `${url.hostname}:${url.port || (url.protocol === 'https:' ? '443' : '80')}`;
  if (listen === 'off') return { host: own, note: ' It has no port of its own here; the HTTP port takes it as well.' };
  const [bound, port] = split(listen ?? `:${usual}`);
  const local = (name: string) => /^(localhost|127\..*|\[::1\])$/.test(name);
  const note = local(bound) && !local(url.hostname) ? ` Now it listens on ${bound} alone, so only programs on the server’s machine reach it.` : '';
  return { host: `${url.hostname}:${port}`, note };
}

function split(address: string): [string, string] {
  const at = address.lastIndexOf(':');
  return [address.slice(0, at), address.slice(at + 1)];
}
