import { Empty } from '../../ui/feedback';

export default function QueryPage() {
  return <Empty title="This page is not built yet." />;
}
