// Hash routing: `#/page?name=value`. Everything of a view that matters is in there, so a link shares it.
import { computed, effect, signal } from '@preact/signals';

export interface Route {
  page: string;
  params: URLSearchParams;
}

export function parseHash(hash: string): Route {
  const [path = '', query = ''] = split(hash.replace(/^#\/?/, ''), '?');
  return { page: path.replace(/\/+$/, ''), params: new URLSearchParams(query) };
}

export function buildHash(page: string, params?: URLSearchParams | Record<string, string>): string {
  // Spaces as %20: some programs that make links clickable stop at a plus sign.
  const query = params ? new URLSearchParams(params).toString().replaceAll('+', '%20') : '';
  return query === '' ? `#/${page}` : `#/${page}?${query}`;
}

function split(text: string, at: string): string[] {
  const i = text.indexOf(at);
  return i < 0 ? [text] : [text.slice(0, i), text.slice(i + 1)];
}

const hash = signal('');

export const route = computed(() => parseHash(hash.value));

export function startRouter(): void {
  // Links of Prometheus, `/graph?g0.expr=up`, keep their parameters before the hash.
  if (location.hash === '' && /[?&]g\d+\.expr=/.test(location.search)) {
    history.replaceState(null, '', `${location.pathname}#/query${location.search}`);
  }
  hash.value = location.hash;
  addEventListener('hashchange', () => (hash.value = location.hash));
  addEventListener('popstate', () => (hash.value = location.hash));
}

export function navigate(page: string, params?: URLSearchParams | Record<string, string>, how: { replace?: boolean } = {}): void {
  const next = buildHash(page, params);
  if (next === location.hash) return;
  if (how.replace) history.replaceState(null, '', next);
  else history.pushState(null, '', next);
  hash.value = next;
}

/** Changes parameters of the current page; null removes one. */
export function setParams(patch: Record<string, string | null>, how: { replace?: boolean } = {}): void {
  const { page, params } = parseHash(location.hash);
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) params.delete(name);
    else params.set(name, value);
  }
  navigate(page, params, how);
}

// What was last seen of each page, so that going elsewhere and back loses nothing.
const seen = new Map<string, string>();

effect(() => void seen.set(route.value.page, hash.value));

/** The page as it was left. */
export function returnHref(page: string): string {
  return seen.get(page) ?? buildHash(page);
}

/** The link to a metric's graph on the query page. */
export function queryHref(expr: string): string {
  return buildHash('query', { 'g0.expr': expr, 'g0.tab': 'graph' });
}
