import { formatCount } from '../format/number';
import { IconButton } from './button';

/** Which part of a list is shown, when the server has the rest. Pages count from 0. */
export function Pager(props: { page: number; size: number; total: number; shown: number; onPage: (page: number) => void }) {
  const { page, size, total, shown, onPage } = props;
  const first = page * size;
  const range = shown === 0 ? '0' : `${formatCount(first + 1)}–${formatCount(first + shown)}`;
  return (
    <div class="row" role="group" aria-label="Pages of the list">
      <span class="muted" aria-live="polite">
        {range} of {formatCount(total)}
      </span>
      <IconButton icon="left" label="Previous page" disabled={page === 0} onClick={() => onPage(page - 1)} />
      <IconButton icon="right" label="Next page" disabled={first + shown >= total} onClick={() => onPage(page + 1)} />
    </div>
  );
}
