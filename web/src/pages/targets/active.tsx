import { formatElapsed } from '../../format/duration';
import { seriesName } from '../../format/labels';
import { queryHref } from '../../router';
import { Empty } from '../../ui/feedback';
import { LabelList } from '../../ui/label-list';
import { Badge } from '../../ui/stat';
import { Table, type Column } from '../../ui/table';
import { Ago, Time } from '../../ui/time';
import type { Row } from './select';

/** Part of the timeout from which on a scrape is about to fail. */
const slow = 0.8;

const columns: readonly Column<Row>[] = [
  { id: 'health', title: 'Health', cell: ({ target }) => <HealthBadge health={target.health} /> },
  { id: 'job', title: 'Job', cell: ({ target }) => target.scrapePool, sort: ({ target }) => target.scrapePool },
  { id: 'target', title: 'Target', cell: (row) => <Address row={row} />, sort: ({ target }) => target.scrapeUrl, class: 'target-address' },
  { id: 'last', title: 'Last scrape', cell: (row) => <LastScrape row={row} />, sort: (row) => row.lastScrape ?? 0 },
  { id: 'took', title: 'Took', cell: (row) => <Took row={row} />, sort: ({ target }) => target.lastScrapeDuration, number: true },
  { id: 'every', title: 'Every', cell: ({ target }) => target.scrapeInterval, number: true },
  { id: 'labels', title: 'Labels', cell: (row) => <TargetLabels row={row} />, class: 'target-labels' },
];

export function ActiveTargets({ rows }: { rows: readonly Row[] }) {
  return (
    <Table
      label="Targets that are scraped"
      columns={columns}
      rows={rows}
      rowKey={({ target }, i) => `${target.scrapePool} ${target.scrapeUrl} ${i}`}
      empty={<Empty title="No target is like that." />}
    />
  );
}

export function HealthBadge({ health }: { health: string }) {
  if (health === 'up') return <Badge kind="good">up</Badge>;
  if (health === 'down') return <Badge kind="bad">failing</Badge>;
  return <Badge>not yet</Badge>;
}

function Address({ row: { target } }: { row: Row }) {
  // The address is text of the server: only what a browser may follow becomes a link.
  const safe = /^https?:\/\//.test(target.globalUrl);
  return (
    <>
      {safe ? (
        <a href={target.globalUrl} target="_blank" rel="noreferrer">
          {target.scrapeUrl}
        </a>
      ) : (
        target.scrapeUrl
      )}
      {target.lastError !== '' && <div class="target-error">{target.lastError}</div>}
    </>
  );
}

function LastScrape({ row: { lastScrape } }: { row: Row }) {
  if (lastScrape === null) return <span class="muted">never</span>;
  return (
    <span class="target-time">
      <Ago at={lastScrape} />
      <span class="muted">
        <Time at={Math.floor(lastScrape)} />
      </span>
    </span>
  );
}

function Took({ row: { target, lastScrape, partOfTimeout } }: { row: Row }) {
  if (lastScrape === null) return null;
  const took = formatElapsed(target.lastScrapeDuration);
  const title = `${took} of at most ${target.scrapeTimeout}`;
  return (
    <span class={partOfTimeout >= slow ? 'target-slow' : ''} title={title}>
      {took}
    </span>
  );
}

function TargetLabels({ row: { target } }: { row: Row }) {
  return (
    <>
      <LabelList labels={target.labels} without={['job']} />
      <details>
        <summary>more</summary>
        <p>
          <a href={queryHref(seriesName({ __name__: 'up', ...target.labels }))}>Its health over time</a>
        </p>
        <p class="muted">Before relabelling:</p>
        <LabelList labels={target.discoveredLabels} />
      </details>
    </>
  );
}
