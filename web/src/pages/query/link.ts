// The view as parameters of the hash. Names are Prometheus' where it has one (`g0.expr`,
// `g0.range_input`, …), so that its links work here; ours work there as far as it goes.
import { formatDuration, parseDuration } from '../../format/duration';
import { parseTime } from '../../format/time';
import type { Span } from '../../ui/time-range';

export const tabs = ['table', 'graph', 'heatmap', 'explain'] as const;
export type TabId = (typeof tabs)[number];

export interface Panel {
  expr: string;
  tab: TabId;
  /** Durations as text; empty is automatic. */
  step: string;
  lookback: string;
  resolution: string;
  stacked: boolean;
  log: boolean;
  exemplars: boolean;
}

export interface View {
  panels: Panel[];
  /** One time for all panels: looking at the same moment is why they are on one page. */
  span: Span;
  /** Seconds between refreshes. */
  refresh: number | null;
}

export const newPanel: Panel = {
  expr: '',
  tab: 'graph',
  step: '',
  lookback: '',
  resolution: '',
  stacked: false,
  log: false,
  exemplars: false,
};

const defaultRange = 3600;
const panelsMax = 50;

export function decode(params: URLSearchParams): View {
  const panels: Panel[] = [];
  while (panels.length < panelsMax && params.has(`g${panels.length}.expr`)) panels.push(decodePanel(params, `g${panels.length}.`));
  if (panels.length === 0) panels.push({ ...newPanel });
  const range = parseDuration(params.get('g0.range_input') ?? '');
  return {
    panels,
    span: { range: range || defaultRange, end: decodeEnd(params) },
    refresh: parseDuration(params.get('refresh') ?? '') || null,
  };
}

function decodeEnd(params: URLSearchParams): number | null {
  // Prometheus has a time for graphs and one for tables, both in UTC.
  const table = decodeTab(params, 'g0.') === 'table';
  const text = (table && params.get('g0.moment_input')) || params.get('g0.end_input');
  return text === null || text === '' ? null : parseTime(text, 'utc', Date.now() / 1000);
}

function decodePanel(params: URLSearchParams, g: string): Panel {
  const text = (name: string) => params.get(g + name) ?? '';
  const on = (name: string) => text(name) === '1';
  return {
    expr: text('expr'),
    tab: decodeTab(params, g),
    step: decodeStep(text),
    lookback: duration(text('lookback')),
    resolution: duration(text('resolution')),
    stacked: on('stacked') || text('display_mode') === 'stacked',
    log: text('scale') === 'log' || text('y_axis_scale') === 'log',
    exemplars: on('show_exemplars'),
  };
}

function decodeTab(params: URLSearchParams, g: string): TabId {
  const tab = params.get(`${g}tab`) ?? '';
  if (params.get(`${g}display_mode`) === 'heatmap' && (tab === 'graph' || tab === '0')) return 'heatmap';
  // Numbers are those of Prometheus 2.
  if (tab === '0') return 'graph';
  if (tab === '1') return 'table';
  return tabs.find((id) => id === tab) ?? 'graph';
}

function decodeStep(text: (name: string) => string): string {
  const fixed = text('res_type') === 'fixed' ? text('res_step') : '';
  return duration(text('step_input') || fixed);
}

/** The duration in its shortest form, or nothing. Seconds have no unit in old links. */
function duration(text: string): string {
  const seconds = parseDuration(text);
  return seconds === null ? '' : formatDuration(seconds);
}

export function encode(view: View): URLSearchParams {
  const params = new URLSearchParams();
  view.panels.forEach((panel, i) => {
    const set = (name: string, value: string) => value !== '' && params.set(`g${i}.${name}`, value);
    params.set(`g${i}.expr`, panel.expr);
    set('tab', panel.tab);
    set('range_input', formatDuration(view.span.range));
    if (view.span.end !== null) set('end_input', utc(view.span.end));
    set('step_input', panel.step);
    set('lookback', panel.lookback);
    set('resolution', panel.resolution);
    if (panel.stacked) set('display_mode', 'stacked');
    if (panel.log) set('scale', 'log');
    if (panel.exemplars) set('show_exemplars', '1');
  });
  if (view.refresh !== null) params.set('refresh', formatDuration(view.refresh));
  return params;
}

function utc(at: number): string {
  return new Date(Math.round(at * 1000)).toISOString().replace('T', ' ').replace(/(\.000)?Z$/, '');
}
