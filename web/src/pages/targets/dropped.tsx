import { useMemo, useState } from 'preact/hooks';
import { getDroppedTargets, type DroppedTarget } from '../../api/targets';
import { formatCount } from '../../format/number';
import { Search } from '../../ui/field';
import { Empty, ErrorBox, Spinner } from '../../ui/feedback';
import { LabelList } from '../../ui/label-list';
import { Table, type Column } from '../../ui/table';
import { useApi, useSettled } from '../../ui/use-api';

const jobOf = (target: DroppedTarget) => target.scrapePool ?? target.discoveredLabels['job'] ?? '';

const columns: readonly Column<DroppedTarget>[] = [
  { id: 'job', title: 'Job', cell: jobOf, sort: jobOf },
  { id: 'address', title: 'Address', cell: (target) => target.discoveredLabels['__address__'] ?? '', sort: (target) => target.discoveredLabels['__address__'] ?? '' },
  { id: 'labels', title: 'Labels before relabelling', cell: (target) => <LabelList labels={target.discoveredLabels} without={['job', '__address__']} />, class: 'target-labels' },
];

export function DroppedTargets() {
  const [text, setText] = useState('');
  const settled = useSettled(text);
  const { data, error, reload } = useApi(getDroppedTargets, []);
  const rows = useMemo(() => {
    const wanted = settled.toLowerCase().split(/\s+/);
    const matches = (target: DroppedTarget) => {
      const all = JSON.stringify(target).toLowerCase();
      return wanted.every((word) => all.includes(word));
    };
    return (data?.targets ?? []).filter(matches);
  }, [data, settled]);
  if (!data) return error ? <ErrorBox error={error} onRetry={reload} /> : <Spinner />;
  const total = Object.values(data.counts).reduce((sum, n) => sum + n, 0);
  if (total === 0 && data.targets.length === 0) return <Empty title="Relabelling drops no target." />;
  return (
    <div class="stack">
      <p class="muted">
        {formatCount(Math.max(total, data.targets.length))} dropped
        {total > data.targets.length ? `; ${formatCount(data.targets.length)} are kept to look at (keep_dropped_targets)` : ''}
      </p>
      <div class="row">
        <Search main label="Search labels" value={text} onInput={setText} />
      </div>
      <Table label="Dropped targets" columns={columns} rows={rows} rowKey={(_, i) => i} empty={<Empty title="No dropped target is like that." />} />
    </div>
  );
}
