// What to begin with, while there is no query.
import { findMetrics, getMetricNames } from '../../api/status';
import { metricSelector } from '../../format/labels';
import { buildHash } from '../../router';
import { useApi } from '../../ui/use-api';
import { history } from './history';

const recentShown = 8;
const metricsShown = 24;

export function Suggestions({ onPick }: { onPick: (expr: string) => void }) {
  const metrics = useApi(mostUsed, []);
  const recent = history.value.slice(0, recentShown);
  return (
    <div class="suggestions">
      {recent.length > 0 && (
        <section>
          <h3>Run before</h3>
          <ul class="plain-list">
            {recent.map((expr) => (
              <li key={expr}>
                <button type="button" class="history-entry" onClick={() => onPick(expr)}>
                  <code>{expr}</code>
                </button>
              </li>
            ))}
          </ul>
        </section>
      )}
      {metrics.data && metrics.data.length > 0 && (
        <section>
          <h3>Metrics</h3>
          <ul class="chips">
            {metrics.data.map((name) => (
              <li key={name}>
                <button type="button" class="chip" onClick={() => onPick(metricSelector(name))}>
                  {name}
                </button>
              </li>
            ))}
          </ul>
          <p class="muted">
            <kbd>Ctrl-K</kbd> finds any of them; <a href={buildHash('explore')}>Explore</a> lists them.
          </p>
        </section>
      )}
      {metrics.data?.length === 0 && (
        <p>
          There is no data yet. <a href={buildHash('start')}>How to send some</a>
        </p>
      )}
    </div>
  );
}

/** Those that are asked for most, where the server counts that; else the first ones. */
async function mostUsed(signal: AbortSignal): Promise<string[]> {
  try {
    const { items } = await getMetricNames({ sort: 'queries', order: 'desc', limit: metricsShown }, signal);
    return items.map(({ name }) => name);
  } catch {
    return (await findMetrics('', metricsShown, signal)).map(({ name }) => name);
  }
}
