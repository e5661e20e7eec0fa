// Runs a panel's query: when it, the time or the way of evaluation changes, and at every refresh.
import { useEffect, useRef, useState } from 'preact/hooks';
import { queryAt, queryExemplars, queryRange, type Exemplars, type Grid, type QueryData } from '../../api/query';
import type { Answer } from '../../api/client';
import { isAbort } from '../../api/error';
import { revived } from '../../state/connection';
import { credential } from '../../state/session';
import type { Span } from '../../ui/time-range';
import { gridOf } from './grid';
import type { Panel, TabId } from './link';

export interface Run extends Answer<QueryData> {
  /** What was asked; another one may be on its way. */
  expr: string;
  kind: Kind;
  grid: Grid;
  /** The time of the latest values. */
  at: number;
  exemplars: Exemplars[];
  /** Seconds until the answer was here. */
  took: number;
}

export interface Running {
  run: Run | null;
  error: unknown;
  /** When the query that runs now began. */
  since: number | null;
  cancel: () => void;
}

type Kind = 'instant' | 'range' | 'explain';

const kindOf = (tab: TabId): Kind => (tab === 'table' ? 'instant' : tab === 'explain' ? 'explain' : 'range');

/** `asked` counts up with every press of the button, `tick` with every refresh. */
export function useRun(panel: Panel, span: Span, asked: number, tick: number): Running {
  const [state, setState] = useState<Omit<Running, 'cancel'>>({ run: null, error: null, since: null });
  const abort = useRef<AbortController | null>(null);
  const lastTick = useRef(tick);
  const kind = kindOf(panel.tab);
  const exemplars = panel.exemplars && panel.tab === 'graph';

  useEffect(() => {
    // A refresh must not cancel a query that takes longer than the interval.
    const refreshed = lastTick.current !== tick;
    lastTick.current = tick;
    if (refreshed && abort.current) return;
    abort.current?.abort();
    if (panel.expr.trim() === '') {
      abort.current = null;
      setState({ run: null, error: null, since: null });
      return;
    }
    const own = new AbortController();
    abort.current = own;
    const began = performance.now();
    setState((before) => ({ ...before, since: began }));
    const finish = (next: Partial<Running>) => {
      if (abort.current !== own) return;
      abort.current = null;
      setState((before) => ({ ...before, since: null, ...next }));
    };
    ask(panel, span, kind, exemplars, own.signal).then(
      (answer) => finish({ run: { ...answer, took: (performance.now() - began) / 1000 }, error: null }),
      (error: unknown) => finish(isAbort(error) ? {} : { error, run: null }),
    );
  }, [panel.expr, panel.step, panel.lookback, panel.resolution, kind, exemplars, span.range, span.end, asked, tick, revived.value, credential.value]);
  useEffect(() => () => abort.current?.abort(), []);

  return { ...state, cancel: () => abort.current?.abort() };
}

async function ask(panel: Panel, span: Span, kind: Kind, exemplars: boolean, signal: AbortSignal): Promise<Omit<Run, 'took'>> {
  const now = Date.now() / 1000;
  const grid = gridOf(span, panel.step, now);
  if (kind === 'instant') {
    const at = span.end ?? now;
    return { ...(await queryAt(panel.expr, at, panel, signal)), expr: panel.expr, kind, grid, at, exemplars: [] };
  }
  const extra = kind === 'explain' ? { stats: 'all', explain: 'true' } : {};
  const [answer, points] = await Promise.all([
    queryRange(panel.expr, grid, panel, extra, signal),
    // Exemplars are an addition: without them the graph is still one.
    exemplars ? queryExemplars(panel.expr, grid.start, grid.end, signal).catch(() => []) : [],
  ]);
  return { ...answer, expr: panel.expr, kind, grid, at: grid.end, exemplars: points };
}
