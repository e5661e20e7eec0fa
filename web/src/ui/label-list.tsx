import './label-list.css';

/** Labels or attributes one beside the other, in the order of their names. */
export function LabelList({ labels, without = [] }: { labels: Record<string, unknown>; without?: readonly string[] }) {
  const names = Object.keys(labels).filter((name) => !without.includes(name));
  return (
    <span class="label-list">
      {names.sort().map((name) => (
        <span key={name} class="label">
          <span class="label-name">{name}</span>={JSON.stringify(labels[name])}
        </span>
      ))}
    </span>
  );
}
