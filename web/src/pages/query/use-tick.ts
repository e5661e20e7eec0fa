import { useEffect, useState } from 'preact/hooks';

/** Counts up every so many seconds, while the tab is visible. */
export function useTick(seconds: number | null): number {
  const [tick, setTick] = useState(0);
  useEffect(() => {
    if (seconds === null) return;
    const timer = setInterval(() => document.visibilityState === 'visible' && setTick((n) => n + 1), seconds * 1000);
    return () => clearInterval(timer);
  }, [seconds]);
  return tick;
}
