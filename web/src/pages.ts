// The pages, in the order of the navigation. Each is a chunk of its own.
import type { ComponentType } from 'preact';
import type { Features } from './api/status';

export interface Page {
  id: string;
  title: string;
  load: () => Promise<{ default: ComponentType }>;
  /** Whether the page is of use with what is in use; always, if missing. */
  shown?: (features: Features) => boolean;
}

// The editor is most of what the page weighs; asked for together they arrive sooner.
function loadQuery() {
  void import('./pages/query/editor-view');
  return import('./pages/query');
}

export const pages: readonly Page[] = [
  { id: 'query', title: 'Query', load: loadQuery },
  { id: 'explore', title: 'Explore', load: () => import('./pages/explore') },
  { id: 'storage', title: 'Storage', load: () => import('./pages/storage') },
  { id: 'targets', title: 'Targets', load: () => import('./pages/targets'), shown: (features) => features.scrape },
  { id: 'events', title: 'Events', load: () => import('./pages/events'), shown: (features) => features.events },
  { id: 'opentsdb', title: 'OpenTSDB', load: () => import('./pages/opentsdb'), shown: (features) => features.opentsdb },
  { id: 'status', title: 'Status', load: () => import('./pages/status') },
  { id: 'start', title: 'Send data', load: () => import('./pages/start') },
];
