import { Empty } from '../../ui/feedback';

export default function OpenTsdbPage() {
  return <Empty title="This page is not built yet." />;
}
