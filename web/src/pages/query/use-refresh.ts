import { useEffect, useState } from 'preact/hooks';

export interface Refresh {
  on: boolean;
  /** Counts up with every refresh. */
  tick: number;
}

/** Every so many seconds, while the tab is visible. */
export function useRefresh(seconds: number | null): Refresh {
  const [tick, setTick] = useState(0);
  useEffect(() => {
    if (seconds === null) return;
    const timer = setInterval(() => document.visibilityState === 'visible' && setTick((n) => n + 1), seconds * 1000);
    return () => clearInterval(timer);
  }, [seconds]);
  return { on: seconds !== null, tick };
}
