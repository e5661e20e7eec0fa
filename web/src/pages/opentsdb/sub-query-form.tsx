import { suggest } from '../../api/opentsdb';
import { Button, IconButton } from '../../ui/button';
import { Field, Select } from '../../ui/field';
import { Suggest } from '../../ui/suggest';
import { filterTypes, formatDownsample, parseDownsample, type Downsample, type Rate, type SubQuery, type TagFilter } from './sub-query';

const rates: readonly { value: Rate; text: string }[] = [
  { value: '', text: 'values' },
  { value: 'rate', text: 'rate' },
  { value: 'counter', text: 'rate of a counter' },
  { value: 'dropcounter', text: 'rate of a counter, no restarts' },
];
const fills = ['', 'none', 'nan', 'null', 'zero'];
const choices = (list: readonly string[], nothing?: string) => list.map((value) => ({ value, text: value === '' ? (nothing ?? '') : value }));

export function SubQueryForm(props: { query: SubQuery; aggregators: readonly string[]; onChange: (query: SubQuery) => void; onRemove?: () => void }) {
  const { query, onChange } = props;
  const set = (patch: Partial<SubQuery>) => onChange({ ...query, ...patch });
  const setFilter = (i: number, filter: TagFilter | null) => {
    const next = query.filters.map((old, k) => (k === i ? filter : old));
    set({ filters: next.filter((one) => one !== null) });
  };
  const sorted = [...new Set([...props.aggregators, query.aggregator])].sort();
  return (
    <fieldset class="sub-query">
      <legend class="off-screen">Query</legend>
      <div class="row fields">
        <Field label="Metric">
          <Suggest label="Metric" size={32} value={query.metric} onInput={(metric) => set({ metric })} ask={(text, signal) => suggest('metrics', text, signal)} />
        </Field>
        <Field label="Aggregator">
          <Select label="Aggregator" value={query.aggregator} choices={choices(sorted)} onChange={(aggregator) => set({ aggregator })} />
        </Field>
        <DownsampleFields text={query.downsample} aggregators={sorted} onChange={(downsample) => set({ downsample })} />
        <Field label="Show">
          <Select label="Show" value={query.rate} choices={rates} onChange={(rate) => set({ rate })} />
        </Field>
        {(query.rate === 'counter' || query.rate === 'dropcounter') && (
          <>
            <Field label="Greatest value">
              <input size={8} inputMode="numeric" value={query.counterMax} onInput={(event) => set({ counterMax: digits(event.currentTarget.value) })} />
            </Field>
            <Field label="Reset from">
              <input size={8} inputMode="numeric" value={query.resetValue} onInput={(event) => set({ resetValue: digits(event.currentTarget.value) })} />
            </Field>
          </>
        )}
        {props.onRemove && <IconButton icon="trash" label="Remove this query" onClick={props.onRemove} />}
      </div>
      {query.filters.map((filter, i) => (
        <FilterFields key={i} filter={filter} onChange={(next) => setFilter(i, next)} onRemove={() => setFilter(i, null)} />
      ))}
      <div class="row">
        <Button
          icon="plus"
          onClick={() => set({ filters: [...query.filters, { tagk: '', type: 'wildcard', filter: '*', groupBy: true }] })}
        >
          Add a tag
        </Button>
        {query.filters.length > 0 && (
          <label class="row">
            <input type="checkbox" checked={query.explicitTags} onChange={(event) => set({ explicitTags: event.currentTarget.checked })} />
            only series with no other tags
          </label>
        )}
      </div>
    </fieldset>
  );
}

function DownsampleFields(props: { text: string; aggregators: readonly string[]; onChange: (text: string) => void }) {
  const value = parseDownsample(props.text);
  const set = (patch: Partial<Downsample>) => props.onChange(formatDownsample({ ...value, ...patch }));
  return (
    <>
      <Field label="Downsample">
        <input
          size={7}
          list="opentsdb-intervals"
          placeholder="none"
          value={value.interval}
          spellcheck={false}
          onInput={(event) => set({ interval: event.currentTarget.value.replaceAll(/[^\da-z]/g, '') })}
        />
      </Field>
      <datalist id="opentsdb-intervals">
        {['10s', '1m', '5m', '15m', '1h', '1d', '1dc', '0all'].map((text) => (
          <option key={text} value={text} />
        ))}
      </datalist>
      {value.interval !== '' && (
        <>
          <Field label="by">
            <Select label="Downsample by" value={value.aggregator} choices={choices(props.aggregators.filter((name) => name !== 'none'))} onChange={(aggregator) => set({ aggregator })} />
          </Field>
          <Field label="Fill gaps">
            <Select label="Fill gaps" value={value.fill} choices={choices(fills, 'no')} onChange={(fill) => set({ fill })} />
          </Field>
        </>
      )}
    </>
  );
}

function FilterFields({ filter, onChange, onRemove }: { filter: TagFilter; onChange: (filter: TagFilter) => void; onRemove: () => void }) {
  const set = (patch: Partial<TagFilter>) => onChange({ ...filter, ...patch });
  return (
    <div class="row" role="group" aria-label={`Filter of the tag ${filter.tagk}`}>
      <Suggest label="Tag" placeholder="tag" size={14} value={filter.tagk} onInput={(tagk) => set({ tagk })} ask={(text, signal) => suggest('tagk', text, signal)} />
      <Select label="Kind of filter" value={filter.type} choices={choices([...new Set([...filterTypes, filter.type])])} onChange={(type) => set({ type })} />
      {filter.type !== 'not_key' && (
        <Suggest label="Value" placeholder="a|b, or *" value={filter.filter} onInput={(text) => set({ filter: text })} ask={(text, signal) => suggest('tagv', lastOf(text), signal)} />
      )}
      <label class="row">
        <input type="checkbox" checked={filter.groupBy} onChange={(event) => set({ groupBy: event.currentTarget.checked })} />
        split by it
      </label>
      <IconButton icon="close" label="Remove this filter" onClick={onRemove} />
    </div>
  );
}

const digits = (text: string) => text.replaceAll(/\D/g, '');
/** What is being typed: of `a|b` the `b`, of a pattern what stands before it. */
const lastOf = (text: string) => (text.split('|').at(-1) ?? '').replace(/[*.(].*$/, '');
