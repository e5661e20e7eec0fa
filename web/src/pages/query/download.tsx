import type { Result } from '../../api/query';
import { Button } from '../../ui/button';
import { Icon } from '../../ui/icons';
import { Popover } from '../../ui/popover';
import { toCsv, toJson } from './csv';

/** The answer as a file. It is made when it is asked for. */
export function Download({ data }: { data: Result }) {
  return (
    <Popover
      label="Download"
      class="plain only-icon"
      align="right"
      button={<Icon name="download" />}
    >
      {(close) => (
        <div class="menu-list">
          <Button
            kind="plain"
            onClick={() => {
              save(toCsv(data), 'query.csv', 'text/csv');
              close();
            }}
          >
            CSV
          </Button>
          <Button
            kind="plain"
            onClick={() => {
              save(toJson(data), 'query.json', 'application/json');
              close();
            }}
          >
            JSON
          </Button>
        </div>
      )}
    </Popover>
  );
}

function save(text: string, name: string, type: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  // The browser has begun to read it by then; kept, it would stay in memory.
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
