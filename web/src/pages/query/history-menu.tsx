import { useState } from 'preact/hooks';
import { Button, IconButton } from '../../ui/button';
import { Search } from '../../ui/field';
import { Icon } from '../../ui/icons';
import { Popover } from '../../ui/popover';
import { forget, history, searchHistory } from './history';

export function HistoryMenu({ onPick }: { onPick: (expr: string) => void }) {
  return (
    <Popover
      label="History"
      class="plain"
      button={
        <>
          <Icon name="history" />
          History
        </>
      }
    >
      {(close) => (
        <Entries
          onPick={(expr) => {
            onPick(expr);
            close();
          }}
        />
      )}
    </Popover>
  );
}

function Entries({ onPick }: { onPick: (expr: string) => void }) {
  const [text, setText] = useState('');
  const found = searchHistory(history.value, text);
  if (history.value.length === 0) return <p class="muted">Queries that were run are kept here, in this browser.</p>;
  return (
    <div class="history">
      <div class="row spread">
        <Search label="Search the history" value={text} onInput={setText} />
        <Button kind="plain" onClick={() => forget(null)}>
          Forget all
        </Button>
      </div>
      <ul class="plain-list">
        {found.map((expr) => (
          <li key={expr}>
            <button type="button" class="history-entry" onClick={() => onPick(expr)}>
              <code>{expr}</code>
            </button>
            <IconButton icon="close" label="Forget this one" onClick={() => forget(expr)} />
          </li>
        ))}
      </ul>
      {found.length === 0 && <p class="muted">None has this in it.</p>}
    </div>
  );
}
