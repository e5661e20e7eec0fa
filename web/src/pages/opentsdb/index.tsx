import { route, setParams } from '../../router';
import { Tabs } from '../../ui/tabs';
import { Annotations } from './annotations';
import { Names } from './names';
import { QueryTab } from './query-tab';
import { Trees } from './trees';
import './opentsdb.css';

const tabs = [
  { id: 'query', title: 'Query', View: QueryTab },
  { id: 'trees', title: 'Trees', View: Trees },
  { id: 'annotations', title: 'Annotations', View: Annotations },
  { id: 'names', title: 'Names and UIDs', View: Names },
] as const;

export default function OpenTsdbPage() {
  const asked = route.value.params.get('tab');
  const { id, View } = tabs.find((tab) => tab.id === asked) ?? tabs[0];
  return (
    <div class="stack">
      <h1>OpenTSDB</h1>
      <Tabs label="OpenTSDB" tabs={tabs} value={id} onChange={(next) => setParams({ tab: next === 'query' ? null : next })}>
        <View />
      </Tabs>
    </div>
  );
}
