import { getStarted, listMetrics } from '../../api/explore';
import type { MetricName } from '../../api/status';
import { formatCount } from '../../format/number';
import { buildHash, navigate, queryHref, route, setParams } from '../../router';
import { Button } from '../../ui/button';
import { Empty, ErrorBox, Notices, Spinner } from '../../ui/feedback';
import { Search, Select } from '../../ui/field';
import { useActions } from '../../ui/palette';
import { Pager } from '../../ui/pager';
import { Badge } from '../../ui/stat';
import { Table, type Column } from '../../ui/table';
import { useTextParam } from '../../ui/text-param';
import { Ago, Time } from '../../ui/time';
import { useApi } from '../../ui/use-api';
import { suggestions } from './expression';
import { pageSize, readView, sortParams, types, type View } from './view';

/** All metrics, searched, sorted and paged by the server: there may be a hundred thousand. */
export function MetricList() {
  const view = readView(route.value.params);
  const [text, setText] = useTextParam('search', ['page']);
  const { data, error, loading, reload } = useApi((signal) => listMetrics(query(view), signal), [JSON.stringify(view)]);
  const showUnread = (unread: boolean) => setParams({ read: unread ? 'never' : null, page: null });
  useActions([{ title: 'Metrics that nobody reads', run: () => showUnread(true) }]);

  // Whoever types quickly is ahead of the list, so the server is asked what the first is.
  const openFirst = async (event: Event) => {
    event.preventDefault();
    const { items } = await listMetrics({ ...query({ ...view, search: text, page: 0 }), limit: 1 }).catch(() => ({ items: [] }));
    if (items[0]) navigate('explore', withMetric(items[0].name, text));
  };
  return (
    <div class="stack">
      <h1 class="off-screen">Explore</h1>
      <form class="row" role="search" onSubmit={openFirst}>
        <Search main label="Search metrics" placeholder="Search metrics; Enter opens the first" value={text} onInput={setText} />
        <Select
          label="Type"
          value={view.type}
          choices={[{ value: '', text: 'every type' }, ...types.map((value) => ({ value: value as string, text: value }))]}
          onChange={(type) => setParams({ type: type === '' ? null : type, page: null })}
        />
        <Button aria-pressed={view.unread} class={view.unread ? 'chosen' : ''} disabled={data?.namesOnly} onClick={() => showUnread(!view.unread)}>
          Never read
        </Button>
        {data && !data.namesOnly && (
          <div class="explore-pager">
            <Pager page={view.page} size={pageSize} total={data.total} shown={data.items.length} onPage={toPage} />
          </div>
        )}
      </form>
      {error !== undefined && <ErrorBox error={error} onRetry={reload} />}
      {data && <Notices warnings={data.warnings} infos={[]} />}
      {!data && loading && <Spinner />}
      {data && (
        <div class={loading ? 'waiting' : ''}>
          <Table
            label="Metrics"
            columns={columns}
            rows={data.items}
            rowKey={(row) => row.name}
            sorting={{ column: view.sort, down: view.down }}
            onSort={(sorting) => setParams(sortParams(sorting))}
            empty={<Nothing view={view} />}
          />
        </div>
      )}
      {data?.namesOnly ? (
        <p class="muted">This server tells names only, at most {pageSize} of them: search for others.</p>
      ) : (
        <Note />
      )}
    </div>
  );
}

const query = (view: View) => ({
  search: view.search,
  type: view.type,
  queried: view.unread ? ('never' as const) : undefined,
  sort: view.sort,
  order: view.down ? ('desc' as const) : ('asc' as const),
  offset: view.page * pageSize,
  limit: pageSize,
});

const toPage = (page: number) => {
  setParams({ page: page === 0 ? null : String(page + 1) });
  scrollTo(0, 0);
};

/** The list's own parameters stay in the link, for the way back. */
function withMetric(name: string, search?: string): URLSearchParams {
  const params = new URLSearchParams(route.value.params);
  if (search) params.set('search', search);
  params.set('metric', name);
  return params;
}

const byServer = () => 0;

const columns: readonly Column<MetricName>[] = [
  {
    id: 'name',
    title: 'Metric',
    sort: byServer,
    class: 'metric-name',
    cell: (row) => (
      <>
        <a class="mono" href={buildHash('explore', withMetric(row.name))}>
          {row.name}
        </a>
        {row.help && <div class="metric-help">{row.help}</div>}
      </>
    ),
  },
  { id: 'type', title: 'Type', cell: (row) => row.type && row.type !== 'unknown' && <Badge>{row.type}</Badge> },
  { id: 'unit', title: 'Unit', cell: (row) => row.unit },
  { id: 'series', title: 'Series', sort: byServer, number: true, cell: (row) => (row.series === null ? '–' : formatCount(row.series)) },
  { id: 'queries', title: 'Read', sort: byServer, number: true, cell: (row) => <Reads queries={row.queries} /> },
  {
    id: 'last_queried',
    title: 'Last read',
    sort: byServer,
    number: true,
    cell: (row) => (row.lastQueried === null ? '' : <Ago at={row.lastQueried} />),
  },
  {
    id: 'query',
    title: '',
    cell: (row) => {
      const expr = suggestions(row.name, row.type)[0]!.expr;
      return (
        <a href={queryHref(expr)} title={expr} aria-label={`Query ${row.name}`}>
          Query
        </a>
      );
    },
  },
];

function Reads({ queries }: { queries: number | null }) {
  if (queries === null) return <>–</>;
  return queries === 0 ? <Badge kind="warn">never</Badge> : <>{formatCount(queries)}</>;
}

function Note() {
  const started = useApi(getStarted, []);
  return (
    <p class="muted">
      “Read” counts the queries that selected the metric since the server started
      {started.data !== undefined && (
        <>
          , <Time at={Math.floor(started.data)} /> (<Ago at={started.data} />)
        </>
      )}
      . A restart begins anew, so “never” says little soon after one. Looking at a metric here does not count. “Series” are those in memory: 0 means that all lie in
      the store.
    </p>
  );
}

function Nothing({ view }: { view: View }) {
  if (view.search === '' && view.type === '' && !view.unread) {
    return (
      <Empty title="There are no metrics yet.">
        <a href={buildHash('start')}>How to send some</a>
      </Empty>
    );
  }
  return (
    <Empty title="No metric is like this.">
      <Button onClick={() => setParams({ search: null, type: null, read: null, page: null })}>Show all</Button>
    </Empty>
  );
}
