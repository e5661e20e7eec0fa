import { Component, type ComponentChildren, type ComponentType } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { Page } from './pages';
import { ErrorBox, Spinner } from './ui/feedback';

const loaded = new Map<string, ComponentType>();

/** Loads a page's chunk and shows it; an error inside it does not take the shell along. */
export function PageView({ page }: { page: Page }) {
  const [, redraw] = useState(0);
  const [error, setError] = useState<unknown>(null);
  const View = loaded.get(page.id);
  const load = () => {
    setError(null);
    page.load().then(
      (module) => {
        loaded.set(page.id, module.default);
        redraw((n) => n + 1);
      },
      () => setError(new Error('The page could not be loaded. If the server was updated meanwhile, reload.')),
    );
  };
  useEffect(() => {
    if (!loaded.has(page.id)) load();
  }, [page]);
  if (error !== null) return <ErrorBox error={error} onRetry={() => location.reload()} />;
  if (!View) return <Spinner />;
  return (
    <Boundary key={page.id}>
      <View />
    </Boundary>
  );
}

class Boundary extends Component<{ children: ComponentChildren }, { error: unknown }> {
  override state = { error: null as unknown };

  static override getDerivedStateFromError(error: unknown) {
    return { error };
  }

  override render() {
    if (this.state.error === null) return this.props.children;
    return <ErrorBox error={this.state.error} onRetry={() => this.setState({ error: null })} />;
  }
}
