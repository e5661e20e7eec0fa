import { getEventTypes, type EventType } from '../../api/events';
import { features } from '../../state/server';
import { route, setParams } from '../../router';
import { Empty, ErrorBox, Spinner } from '../../ui/feedback';
import { Tabs } from '../../ui/tabs';
import { useApi } from '../../ui/use-api';
import { Counters } from './counters';
import { EventView } from './event-view';
import { SearchTab } from './search-tab';
import { SqlTab } from './sql-tab';
import { Types } from './types';
import './events.css';

const tabs = [
  { id: 'types', title: 'Types' },
  { id: 'search', title: 'Search' },
  { id: 'counters', title: 'Counters' },
  { id: 'sql', title: 'SQL' },
] as const;

export default function EventsPage() {
  const { params } = route.value;
  const { data: types, error, reload } = useApi(getEventTypes, []);
  const offered = tabs.filter(({ id }) => id !== 'sql' || features.value?.sql !== false);
  const tab = offered.find(({ id }) => id === params.get('tab'))?.id ?? 'types';
  return (
    <div class="stack">
      <h1>Events</h1>
      {!types ? (
        error ? (
          <ErrorBox error={error} onRetry={reload} />
        ) : (
          <Spinner />
        )
      ) : types.length === 0 ? (
        <NoTypes />
      ) : (
        <Tabs label="Events" tabs={offered} value={tab} onChange={(id) => setParams({ tab: id, id: null })}>
          <Tab tab={tab} types={types} />
        </Tabs>
      )}
    </div>
  );
}

function Tab({ tab, types }: { tab: (typeof tabs)[number]['id']; types: readonly EventType[] }) {
  const { params } = route.value;
  const service = params.get('service') ?? '';
  const id = params.get('id');
  if (tab === 'search') return id !== null ? <EventView service={service} id={id} /> : <SearchTab types={types} />;
  if (tab === 'counters') return <Counters types={types} />;
  if (tab === 'sql') return <SqlTab types={types} />;
  return <Types types={types} />;
}

function NoTypes() {
  return (
    <Empty title="No type of event is registered.">
      <p>
        Types are registered by documents, with <code>icecore events apply</code>. <a href="#/start?way=events">How to begin</a>
      </p>
    </Empty>
  );
}
