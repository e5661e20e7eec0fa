import { describe, expect, test } from 'vitest';
import { parseHash, buildHash } from '../../src/router';
import { decode, encode, newPanel, type View } from '../../src/pages/query/link';

const at = Date.UTC(2024, 4, 1, 13, 45, 0) / 1000;

describe('the link of a view', () => {
  const view: View = {
    panels: [
      { ...newPanel, expr: 'sum by (le) (rate(a{b="c&d=e#f"}[5m]))\n+ 1 # ü', tab: 'heatmap', step: '30s', lookback: '10m' },
      { ...newPanel, expr: 'up', tab: 'table', resolution: '0s' },
      { ...newPanel, expr: '', stacked: true, log: true, exemplars: true },
    ],
    span: { range: 5400, end: at + 0.25 },
    refresh: 30,
  };

  test('and back', () => expect(decode(encode(view))).toEqual(view));

  test('through the hash', () => expect(decode(parseHash(buildHash('query', encode(view))).params)).toEqual(view));

  test('of nothing is one empty panel of the last hour', () =>
    expect(decode(new URLSearchParams())).toEqual({ panels: [newPanel], span: { range: 3600, end: null }, refresh: null }));
});

describe("Prometheus' links", () => {
  const of = (text: string) => decode(new URLSearchParams(text));

  test('of version 3', () => {
    const view = of('g0.expr=up&g0.tab=table&g0.range_input=2h&g0.end_input=2024-05-01%2013%3A45%3A00&g1.expr=x&g1.tab=graph&g1.display_mode=stacked&g1.show_exemplars=1');
    expect(view.span).toEqual({ range: 7200, end: at });
    expect(view.panels.map(({ expr, tab, stacked }) => [expr, tab, stacked])).toEqual([
      ['up', 'table', false],
      ['x', 'graph', true],
    ]);
    expect(view.panels[1]?.exemplars).toBe(true);
  });

  test('of version 2', () => {
    const view = of('g0.expr=up&g0.tab=0&g0.stacked=1&g0.range_input=1h&g0.step_input=15&g1.expr=y&g1.tab=1');
    expect(view.panels[0]).toMatchObject({ tab: 'graph', stacked: true, step: '15s' });
    expect(view.panels[1]).toMatchObject({ tab: 'table' });
  });

  test('of a heatmap and a fixed step', () =>
    expect(of('g0.expr=x&g0.tab=graph&g0.display_mode=heatmap&g0.res_type=fixed&g0.res_step=60').panels[0]).toMatchObject({ tab: 'heatmap', step: '1m' }));

  test('the time of a table', () => expect(of('g0.expr=x&g0.tab=table&g0.moment_input=2024-05-01%2013%3A45%3A00').span.end).toBe(at));

  test('with nonsense in them', () => {
    const view = of('g0.expr=x&g0.tab=9&g0.range_input=never&g0.end_input=soon&g0.step_input=-1&refresh=0&g2.expr=skipped');
    expect(view).toEqual({ panels: [{ ...newPanel, expr: 'x' }], span: { range: 3600, end: null }, refresh: null });
  });
});
