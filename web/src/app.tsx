// The shell: navigation, the state of the server, switches, and the page.
import { useEffect, useState } from 'preact/hooks';
import { PageView } from './page-view';
import { pages, type Page } from './pages';
import { buildHash, queryHref, returnHref, route } from './router';
import { ownVersion } from './api/own-version';
import { metricSelector } from './format/labels';
import { connection } from './state/connection';
import { access, buildInfo, features } from './state/server';
import { askForLogin, credential, loginReason, setCredential } from './state/session';
import { theme, themes } from './state/theme';
import { zone } from './state/zone';
import { Button, IconButton } from './ui/button';
import { Select } from './ui/field';
import { GoneBanner } from './ui/gone-banner';
import { KeyHelp, keyHelpOpen } from './ui/key-help';
import { useKeys } from './ui/keys';
import { Login } from './ui/login';
import { Palette, paletteOpen } from './ui/palette';
import { Segmented } from './ui/segmented';

/** The page of the route; without one, Query, or Start while there is no data. */
function currentPage(): Page {
  const fallback = features.value?.data === false ? 'start' : 'query';
  const wanted = route.value.page || fallback;
  return pages.find((page) => page.id === wanted) ?? pages[0]!;
}

function visiblePages(current: Page): readonly Page[] {
  const known = features.value;
  return pages.filter((page) => page === current || !page.shown || (known !== null && page.shown(known)));
}

export function App() {
  const page = currentPage();
  const shown = visiblePages(page);
  useEffect(() => {
    document.title = `${page.title} · Icecore`;
  }, [page]);
  useKeys([
    { key: 'Ctrl-K', help: 'Go to a page, an action or a metric', run: () => (paletteOpen.value = true) },
    { key: '?', help: 'These keys', run: () => (keyHelpOpen.value = true) },
  ]);
  return (
    <>
      <a class="skip" href="#main" onClick={skipToMain}>
        Skip to the content
      </a>
      <Header page={page} shown={shown} />
      <GoneBanner />
      <main id="main" tabIndex={-1} class={`page-${page.id}`}>
        <PageView page={page} />
      </main>
      {paletteOpen.value && (
        <Palette
          pages={pages.map(({ id, title }) => ({ title, kind: 'page', run: () => (location.hash = returnHref(id)) }))}
          onMetric={(name) => (location.hash = queryHref(metricSelector(name)))}
        />
      )}
      {keyHelpOpen.value && <KeyHelp />}
      {loginReason.value !== null && <Login />}
    </>
  );
}

// The hash is the route, so the link cannot be followed as it is.
function skipToMain(event: Event): void {
  event.preventDefault();
  document.getElementById('main')?.focus();
}

function Header({ page, shown }: { page: Page; shown: readonly Page[] }) {
  const [open, setOpen] = useState(false);
  useEffect(() => setOpen(false), [page]);
  return (
    <header class="top">
      <a class="brand" href={buildHash('query')}>
        <img src="./favicon.svg" alt="" width="20" height="20" />
        Icecore
      </a>
      <IconButton icon="menu" label="Menu" class="menu-button" aria-expanded={open} aria-controls="menu" onClick={() => setOpen(!open)} />
      <div id="menu" class={open ? 'menu open' : 'menu'}>
        <nav aria-label="Pages">
          {shown.map(({ id, title }) => (
            <a key={id} href={id === page.id ? buildHash(id) : returnHref(id)} {...(id === page.id ? { 'aria-current': 'page' } : {})}>
              {title}
            </a>
          ))}
        </nav>
        <div class="switches">
          <Button kind="plain" icon="search" title="Go to a page, an action or a metric (Ctrl-K)" onClick={() => (paletteOpen.value = true)}>
            <kbd>Ctrl-K</kbd>
          </Button>
          <Segmented
            label="Time zone"
            value={zone.value}
            choices={[
              { value: 'local', text: 'Local', title: 'Times of this computer' },
              { value: 'utc', text: 'UTC' },
            ]}
            onChange={(value) => (zone.value = value)}
          />
          <Select label="Theme" value={theme.value} choices={themes.map((value) => ({ value, text: value }))} onChange={(value) => (theme.value = value)} />
          <User />
          <IconButton icon="help" label="Keys (?)" onClick={() => (keyHelpOpen.value = true)} />
          <ServerState />
        </div>
      </div>
    </header>
  );
}

function User() {
  const user = access.value?.user;
  if (credential.value !== null) {
    return (
      <Button kind="plain" icon="user" title={user ? `Signed in as ${user}` : 'Signed in'} onClick={() => setCredential(null)}>
        Sign out
      </Button>
    );
  }
  if (!access.value?.required) return null;
  return (
    <Button kind="plain" icon="user" onClick={() => askForLogin('')}>
      Sign in
    </Button>
  );
}

function ServerState() {
  const { state } = connection.value;
  const text = state === 'ok' ? 'answers' : state === 'gone' ? 'does not answer' : 'is not ready';
  return (
    <a class={`server-state ${state}`} href={buildHash('status')} title={`The server ${text}`}>
      <span class="dot" aria-hidden="true" />
      <span class="off-screen">The server {text}</span>
      {buildInfo.value ? ownVersion(buildInfo.value) : ''}
    </a>
  );
}
