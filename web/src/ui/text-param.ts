import { useEffect, useRef, useState } from 'preact/hooks';
import { route, setParams } from '../router';
import { useSettled } from './use-api';

/**
 * A text that is typed here and kept in the hash. It goes there when it stands still, so that the
 * history does not get an entry per letter, and comes from there when somebody goes back.
 */
export function useTextParam(name: string, alsoReset: readonly string[] = []): [string, (text: string) => void] {
  const inHash = route.value.params.get(name) ?? '';
  const [text, setText] = useState(inHash);
  const written = useRef(inHash);
  const settled = useSettled(text);
  useEffect(() => {
    if (settled === written.current) return;
    written.current = settled;
    const reset = Object.fromEntries(alsoReset.map((other) => [other, null]));
    setParams({ ...reset, [name]: settled === '' ? null : settled }, { replace: true });
  }, [settled]);
  useEffect(() => {
    if (inHash === written.current) return;
    written.current = inHash;
    setText(inHash);
  }, [inHash]);
  return [text, setText];
}
