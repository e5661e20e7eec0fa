// What the editor offers while typing. Names are searched by the server and come in small numbers:
// there may be a hundred thousand metrics, and as many values of a label.
import type { CompletionContext, CompletionResult } from '@codemirror/autocomplete';
import { syntaxTree } from '@codemirror/language';
import { newCompleteStrategy, type CompleteStrategy, type PrometheusClient } from '@prometheus-io/codemirror-promql';
import { EqlRegex, EqlSingle, Neq, NeqRegex, StringLiteral } from '@prometheus-io/lezer-promql';
import { labelNames, labelValues } from '../../api/query';
import { escapeRegex, findMetrics, type FoundMetric } from '../../api/status';
import { labelName, quote } from '../../format/labels';

type MetricMetadata = Awaited<ReturnType<PrometheusClient['metricMetadata']>>;
type Matchers = NonNullable<Parameters<PrometheusClient['labelValues']>[2]>;

const limit = 300;

export interface Times {
  start: number;
  end: number;
}

/** The endpoints as Prometheus' editor wants them. */
class Client implements PrometheusClient {
  /** The part of a label's value that is written already. */
  typed = '';
  /** Whether the last list ended at the limit: then another letter needs another question. */
  cut = false;
  private found: FoundMetric[] = [];
  private running = new AbortController();

  constructor(private readonly times: () => Times) {}

  async metricNames(typed = ''): Promise<string[]> {
    this.found = await this.ask((signal) => findMetrics(typed, limit, signal), []);
    this.cut = this.found.length >= limit;
    return this.found.map(({ name }) => name);
  }

  async metricMetadata(): Promise<MetricMetadata> {
    return Object.fromEntries(this.found.filter(({ type }) => type).map(({ name, type, help }) => [name, [{ type: type ?? '', help: help ?? '' }]]));
  }

  async labelNames(metric?: string): Promise<string[]> {
    const matcher = metric ? selector(metric, []) : undefined;
    return this.ask((signal) => labelNames({ matcher, ...this.times(), limit: 1000 }, signal), []);
  }

  async labelValues(label: string, metric?: string, matchers: Matchers = []): Promise<string[]> {
    const wanted = matchers.filter((matcher) => matcher.name !== label && matcher.value !== '').map(matcherText);
    if (this.typed !== '') wanted.push(`${labelName(label)}=~${quote(`(?i).*${escapeRegex(this.typed)}.*`)}`);
    const matcher = metric || wanted.length > 0 ? selector(metric ?? '', wanted) : undefined;
    const values = await this.ask((signal) => labelValues(label, { matcher, ...this.times(), limit }, signal), []);
    this.cut = values.length >= limit;
    return values;
  }

  // Not used by the completion.
  series = async () => [];
  flags = async () => ({});

  destroy(): void {
    this.running.abort();
  }

  /** A new question ends the one before it. Without an answer there is nothing to offer, and nothing to say. */
  private async ask<T>(question: (signal: AbortSignal) => Promise<T>, none: T): Promise<T> {
    this.running.abort();
    this.running = new AbortController();
    return question(this.running.signal).catch(() => none);
  }
}

const operators = new Map([
  [EqlSingle, '='],
  [Neq, '!='],
  [EqlRegex, '=~'],
  [NeqRegex, '!~'],
]);

function matcherText({ name, type, value }: Matchers[number]): string {
  // The value is as it was written, escapes included.
  return `${labelName(name)}${operators.get(type) ?? '='}"${value}"`;
}

function selector(metric: string, matchers: readonly string[]): string {
  return `{${[...(metric ? [`__name__=${quote(metric)}`] : []), ...matchers].join(',')}}`;
}

export class Completion implements CompleteStrategy {
  private readonly client: Client;
  private readonly prometheus: CompleteStrategy;

  constructor(times: () => Times) {
    this.client = new Client(times);
    this.prometheus = newCompleteStrategy({ remote: this.client });
  }

  async promQL(context: CompletionContext): Promise<CompletionResult | null> {
    this.client.cut = false;
    this.client.typed = typedValue(context);
    const result = await this.prometheus.promQL(context);
    if (!result || !this.client.cut) return result;
    const { validFor: _, ...rest } = result;
    return rest;
  }

  destroy(): void {
    this.client.destroy();
  }
}

function typedValue({ state, pos }: CompletionContext): string {
  const node = syntaxTree(state).resolveInner(pos, -1);
  return node.type.id === StringLiteral ? state.sliceDoc(node.from + 1, pos) : '';
}
