import { Empty } from '../../ui/feedback';

export default function StatusPage() {
  return <Empty title="This page is not built yet." />;
}
