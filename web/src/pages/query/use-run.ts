// Runs a panel's query: when it, the time or the way of evaluation changes, and at every refresh.
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { queryAt, queryExemplars, queryRange, type Exemplars, type Grid, type QueryData } from '../../api/query';
import type { Answer } from '../../api/client';
import { ApiError, isAbort } from '../../api/error';
import { revived } from '../../state/connection';
import { credential } from '../../state/session';
import type { Span } from '../../ui/time-range';
import { gridOf } from './grid';
import type { Panel, TabId } from './link';
import type { Refresh } from './use-refresh';

export interface Run extends Answer<QueryData> {
  /** What was asked; another one may be on its way. */
  expr: string;
  tab: TabId;
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

/** More lines would neither be told apart nor be drawn in time; the server warns where there are more. */
const linesMax = 2000;
const bucketsMax = 20_000;
const rowsMax = 100_000;

/** `asked` counts up with every press of the button, `refresh.tick` with every refresh. */
export function useRun(panel: Panel, span: Span, asked: number, refresh: Refresh): Running {
  const [state, setState] = useState<Omit<Running, 'cancel'>>({ run: null, error: null, since: null });
  const abort = useRef<AbortController | null>(null);
  const lastQuestion = useRef('');
  const exemplars = panel.exemplars && panel.tab === 'graph';

  const { expr, tab, step, lookback, resolution } = panel;
  const question = JSON.stringify([expr, tab, step, lookback, resolution, exemplars, span.range, span.end, asked, revived.value, credential.value]);

  // Before the browser paints: what is asked for first is answered first.
  useLayoutEffect(() => {
    // A refresh must not cancel a query that takes longer than the interval.
    if (lastQuestion.current === question && abort.current) return;
    lastQuestion.current = question;
    abort.current?.abort();
    if (expr.trim() === '') {
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
    ask(panel, span, refresh.on, exemplars, own.signal).then(
      (answer) => finish({ run: { ...answer, took: (performance.now() - began) / 1000 }, error: null }),
      (error: unknown) => finish(isAbort(error) ? {} : gone(error) ? { error } : { error, run: null }),
    );
  }, [question, refresh.tick]);
  useEffect(() => () => abort.current?.abort(), []);

  return { ...state, cancel: () => abort.current?.abort() };
}

/** While the server is gone, its last answer is better than none; the banner says how old it is. */
const gone = (error: unknown) => error instanceof ApiError && error.status === 0;

async function ask(panel: Panel, span: Span, steady: boolean, exemplars: boolean, signal: AbortSignal): Promise<Omit<Run, 'took'>> {
  const { expr, tab } = panel;
  const now = Date.now() / 1000;
  const grid = gridOf(span, panel.step, now, steady);
  if (tab === 'table') {
    const at = span.end ?? now;
    return { ...(await queryAt(expr, at, panel, rowsMax, signal)), expr, tab, grid, at, exemplars: [] };
  }
  const limit = tab === 'heatmap' ? bucketsMax : linesMax;
  const extra = tab === 'explain' ? { limit, stats: 'all', explain: 'true' } : { limit };
  const [answer, points] = await Promise.all([
    queryRange(expr, grid, panel, extra, signal),
    // Exemplars are an addition: without them the graph is still one.
    exemplars ? queryExemplars(expr, grid.start, grid.end, signal).catch(() => []) : [],
  ]);
  return { ...answer, expr, tab, grid, at: grid.end, exemplars: points };
}
