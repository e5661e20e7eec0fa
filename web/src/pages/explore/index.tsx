import { Empty } from '../../ui/feedback';

export default function ExplorePage() {
  return <Empty title="This page is not built yet." />;
}
