import { Empty } from '../../ui/feedback';

export default function StoragePage() {
  return <Empty title="This page is not built yet." />;
}
