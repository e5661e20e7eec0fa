import { route } from '../../router';
import { MetricList } from './list';
import { MetricView } from './metric';
import './explore.css';

/** Which metrics there are, and what one of them is like: `#/explore?metric=up`. */
export default function ExplorePage() {
  const metric = route.value.params.get('metric');
  return metric === null ? <MetricList /> : <MetricView key={metric} name={metric} />;
}
