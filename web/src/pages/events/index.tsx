import { Empty } from '../../ui/feedback';

export default function EventsPage() {
  return <Empty title="This page is not built yet." />;
}
