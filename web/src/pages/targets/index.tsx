import { Empty } from '../../ui/feedback';

export default function TargetsPage() {
  return <Empty title="This page is not built yet." />;
}
