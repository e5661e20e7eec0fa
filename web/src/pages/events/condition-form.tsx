import type { ComponentChildren } from 'preact';
import { getAttributeValues, type Attribute } from '../../api/events';
import { Button, IconButton } from '../../ui/button';
import { Select } from '../../ui/field';
import { Segmented } from '../../ui/segmented';
import { Suggest } from '../../ui/suggest';
import { columns, ops, type Condition } from './conditions';

export function Conditions(props: {
  service: string;
  attributes: readonly Attribute[];
  conditions: readonly Condition[];
  any: boolean;
  onChange: (conditions: Condition[]) => void;
  onAny: (any: boolean) => void;
  /** Stands in the row of buttons. */
  children: ComponentChildren;
}) {
  const { conditions, onChange } = props;
  const names = [...new Set([...props.attributes.map(({ path }) => path), ...columns])];
  const set = (i: number, patch: Partial<Condition>) => onChange(conditions.map((old, k) => (k === i ? { ...old, ...patch } : old)));
  return (
    <div class="stack conditions">
      {conditions.map((condition, i) => (
        <div key={i} class="row" role="group" aria-label={`Condition on ${condition.name}`}>
          <Suggest
            label="Attribute"
            placeholder="attribute"
            value={condition.name}
            of={props.service}
            onInput={(name) => set(i, { name })}
            ask={(text) => Promise.resolve(names.filter((name) => name.includes(text)))}
          />
          <Select label="Operator" value={condition.op} choices={ops.map((op) => ({ value: op, text: op }))} onChange={(op) => set(i, { op })} />
          {condition.op !== 'exists' && (
            <Suggest
              label="Value"
              placeholder={condition.op === 'in' ? 'a, b' : condition.op.endsWith('like') ? 'a%' : 'value'}
              value={condition.value}
              of={`${props.service} ${condition.name}`}
              onInput={(value) => set(i, { value })}
              ask={async (text, signal) => (isIndexed(props.attributes, condition.name) ? getAttributeValues(props.service, condition.name, text, signal) : [])}
            />
          )}
          <IconButton icon="close" label="Remove this condition" onClick={() => onChange(conditions.filter((_, k) => k !== i))} />
        </div>
      ))}
      <div class="row">
        {props.children}
        <Button icon="plus" onClick={() => onChange([...conditions, { name: '', op: '=', value: '' }])}>
          Add a condition
        </Button>
        {conditions.length > 1 && (
          <Segmented
            label="Which conditions must hold"
            value={props.any ? 'any' : 'all'}
            choices={[
              { value: 'all', text: 'all hold' },
              { value: 'any', text: 'one holds' },
            ]}
            onChange={(which) => props.onAny(which === 'any')}
          />
        )}
      </div>
    </div>
  );
}

const isIndexed = (attributes: readonly Attribute[], name: string) => attributes.some(({ path, indexed }) => indexed && path === name);
