import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { isAbort } from '../api/error';
import { revived } from '../state/connection';
import { credential } from '../state/session';

export interface Loaded<T> {
  /** The latest answer; stays while the next one loads. */
  data: T | undefined;
  error: unknown;
  loading: boolean;
  reload: () => void;
}

/**
 * Asks when the page appears, when `deps` change, when the server or a login returns, and every so
 * many seconds while the tab is visible. A newer question cancels the older one.
 */
export function useApi<T>(ask: (signal: AbortSignal) => Promise<T>, deps: readonly unknown[], every?: number): Loaded<T> {
  const [state, setState] = useState<{ data?: T; error?: unknown; loading: boolean }>({ loading: true });
  const [round, setRound] = useState(0);
  const busy = useRef(false);
  busy.current = state.loading;
  useEffect(() => {
    const abort = new AbortController();
    setState((before) => ({ ...before, loading: true }));
    ask(abort.signal).then(
      (data) => !abort.signal.aborted && setState({ data, loading: false }),
      (error: unknown) => {
        if (!isAbort(error) && !abort.signal.aborted) setState((before) => ({ ...before, error, loading: false }));
      },
    );
    return () => abort.abort();
  }, [...deps, round, revived.value, credential.value]);
  useEffect(() => {
    if (every === undefined) return;
    const tick = () => {
      // A question that takes longer than the interval must not be canceled by the next one for ever.
      if (document.visibilityState === 'visible' && !busy.current) setRound((n) => n + 1);
    };
    const timer = setInterval(tick, every * 1000);
    return () => clearInterval(timer);
  }, [every]);
  const reload = useCallback(() => setRound((n) => n + 1), []);
  return { data: state.data, error: state.error, loading: state.loading, reload };
}

/** The value as it was when it last stood still for that long: for searching while typing. */
export function useSettled<T>(value: T, ms = 150): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return settled;
}
