import type { EventType } from '../../api/events';
import { setParams } from '../../router';
import { Field, Select } from '../../ui/field';

/** Service and type, which all tabs share. `any` allows all types of a service. */
export function TypeChoice(props: { types: readonly EventType[]; service: string; type: string; any?: boolean }) {
  const services = [...new Set(props.types.map(({ service }) => service))].sort();
  const ofService = props.types.filter(({ service }) => service === props.service).map(({ name }) => name);
  const none = props.any ? [{ value: '', text: 'all types' }] : [];
  return (
    <>
      <Field label="Service">
        <Select label="Service" value={props.service} choices={services.map((value) => ({ value, text: value }))} onChange={(service) => setParams({ service, type: null, counter: null, by: null })} />
      </Field>
      <Field label="Type">
        <Select
          label="Type"
          value={props.type}
          choices={[...none, ...ofService.sort().map((value) => ({ value, text: value }))]}
          onChange={(type) => setParams({ type: type || null, counter: null, by: null })}
        />
      </Field>
    </>
  );
}

/** The chosen service and type; without a choice the first, or all types where that is allowed. */
export function chosen(types: readonly EventType[], params: URLSearchParams, any = false): { service: string; type: string } {
  const service = types.find((known) => known.service === params.get('service'))?.service ?? types[0]?.service ?? '';
  const ofService = types.filter((known) => known.service === service);
  const type = ofService.find(({ name }) => name === params.get('type'))?.name ?? (any ? '' : (ofService[0]?.name ?? ''));
  return { service, type };
}
