import type { ComponentChildren, JSX } from "preact";
import { Icon, type IconName } from "./icons.tsx";

type Pressed = (event: MouseEvent) => void;

/** A button that shows only a drawing; its label is read aloud and shown on hover. */
export function IconButton(props: { icon: IconName; label: string; onClick: Pressed; disabled?: boolean; primary?: boolean }): JSX.Element {
  const { icon, label, onClick, disabled, primary } = props;
  return (
    <button type="button" class={primary ? "btn-icon btn-ink" : "btn-icon"} aria-label={label} title={label} onClick={onClick} disabled={disabled}>
      <Icon name={icon} />
    </button>
  );
}

export function Button(props: { children: ComponentChildren; onClick: Pressed; primary?: boolean; disabled?: boolean }): JSX.Element {
  return (
    <button type="button" class={props.primary ? "btn btn-ink" : "btn"} onClick={props.onClick} disabled={props.disabled}>
      {props.children}
    </button>
  );
}
