import { formatCount } from '../../format/number';
import type { Job } from './select';

const shown = 60;

/** The jobs at a glance; a click shows only one. */
export function Jobs({ jobs, chosen, onChoose }: { jobs: readonly Job[]; chosen: string; onChoose: (name: string) => void }) {
  return (
    <div class="jobs" role="group" aria-label="Jobs">
      {jobs.slice(0, shown).map(({ name, up, down, unknown }) => (
        <button
          key={name}
          type="button"
          class={down > 0 ? 'job bad' : 'job'}
          aria-pressed={name === chosen}
          onClick={() => onChoose(name === chosen ? '' : name)}
        >
          {name} <span class="job-count">{`${formatCount(up)}/${formatCount(up + down + unknown)} up`}</span>
        </button>
      ))}
      {jobs.length > shown && <span class="muted">and {formatCount(jobs.length - shown)} more, all in the list of jobs</span>}
    </div>
  );
}
