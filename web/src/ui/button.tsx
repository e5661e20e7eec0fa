import type { ComponentChildren, JSX } from 'preact';
import { Icon, type IconName } from './icons';

interface Props extends Omit<JSX.IntrinsicElements['button'], 'icon' | 'label'> {
  kind?: 'normal' | 'primary' | 'plain' | 'danger';
  icon?: IconName;
  children?: ComponentChildren;
}

export function Button({ kind = 'normal', icon, children, class: more, ...rest }: Props) {
  return (
    <button type="button" class={`button ${kind} ${more ?? ''}`} {...rest}>
      {icon && <Icon name={icon} />}
      {children}
    </button>
  );
}

/** A button that shows only an icon; the label is for screen readers and the tooltip. */
export function IconButton({ label, ...rest }: Props & { icon: IconName; label: string }) {
  return <Button kind="plain" aria-label={label} title={label} {...rest} class={`only-icon ${rest.class ?? ''}`} />;
}
