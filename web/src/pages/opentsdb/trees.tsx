import { getBranch, getTrees, type Branch, type Leaf } from '../../api/opentsdb';
import { route, setParams } from '../../router';
import { Select } from '../../ui/field';
import { Empty, ErrorBox, Spinner } from '../../ui/feedback';
import { LabelList } from '../../ui/label-list';
import { LinkButton } from '../../ui/link-button';
import { Table, type Column } from '../../ui/table';
import { useApi } from '../../ui/use-api';
import { crumbs } from './branch-path';
import { seriesHref } from './link';

const columns: readonly Column<Leaf>[] = [
  { id: 'name', title: 'Series', cell: (leaf) => <LeafLink leaf={leaf} />, sort: (leaf) => leaf.displayName },
  { id: 'metric', title: 'Metric', cell: (leaf) => leaf.metric, sort: (leaf) => leaf.metric },
  { id: 'tags', title: 'Tags', cell: (leaf) => <LabelList labels={leaf.tags ?? {}} /> },
];

export function Trees() {
  const { params } = route.value;
  const { data: trees, error, reload } = useApi(getTrees, []);
  if (!trees) return error ? <ErrorBox error={error} onRetry={reload} /> : <Spinner />;
  const first = trees[0];
  if (!first) {
    return (
      <Empty title="There are no trees.">
        <p>
          A tree arranges series by rules. It is defined with <code>POST /opentsdb/api/tree</code> and <code>/opentsdb/api/tree/rules</code>, and grows when
          series are written while <code>tsd.core.tree.enable_processing</code> is set.
        </p>
      </Empty>
    );
  }
  const tree = trees.find(({ treeId }) => String(treeId) === params.get('tree')) ?? first;
  return (
    <div class="stack">
      <div class="row">
        <Select
          label="Tree"
          value={String(tree.treeId)}
          choices={trees.map(({ treeId, name }) => ({ value: String(treeId), text: name || `tree ${treeId}` }))}
          onChange={(id) => setParams({ tree: id, branch: null })}
        />
        <span class="muted">
          {tree.description} {!tree.enabled && '(does not grow: it is not enabled)'}
        </span>
      </div>
      <BranchView tree={tree.treeId} branch={params.get('branch')} />
    </div>
  );
}

function BranchView({ tree, branch }: { tree: number; branch: string | null }) {
  const { data, error, loading, reload } = useApi((signal) => getBranch(tree, branch, signal), [tree, branch]);
  if (error) return <ErrorBox error={error} onRetry={reload} />;
  if (!data) return <Spinner />;
  const open = (id: string) => setParams({ tree: String(tree), branch: id });
  return (
    <div class="stack" aria-busy={loading}>
      <nav aria-label="Path" class="row">
        {crumbs(data).map(({ id, name }, i) => (
          <span key={id}>
            {i > 0 && ' / '}
            <LinkButton onClick={() => open(id)}>{name}</LinkButton>
          </span>
        ))}
      </nav>
      <Branches branches={data.branches ?? []} onOpen={open} />
      {(data.leaves ?? []).length > 0 && <Table label="Series of the branch" columns={columns} rows={data.leaves ?? []} rowKey={(leaf) => leaf.tsuid} />}
      {!data.branches?.length && !data.leaves?.length && <Empty title="Nothing has grown here." />}
    </div>
  );
}

function Branches({ branches, onOpen }: { branches: readonly Branch[]; onOpen: (id: string) => void }) {
  return (
    <ul class="branches">
      {branches.map(({ branchId, displayName }) => (
        <li key={branchId}>
          <LinkButton onClick={() => onOpen(branchId)}>{displayName}</LinkButton>
        </li>
      ))}
    </ul>
  );
}

function LeafLink({ leaf }: { leaf: Leaf }) {
  return <a href={seriesHref(leaf.metric, leaf.tags ?? {})}>{leaf.displayName}</a>;
}
