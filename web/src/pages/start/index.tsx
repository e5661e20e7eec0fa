import { Empty } from '../../ui/feedback';

export default function StartPage() {
  return <Empty title="This page is not built yet." />;
}
