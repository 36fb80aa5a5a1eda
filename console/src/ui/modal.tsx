import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";

interface Props {
  label: string;
  children: (close: () => void) => ComponentChildren;
  onClose: () => void;
  className?: string;
}

/** A native dialog: the browser keeps the focus inside, closes it on Escape, and gives the focus back to the opener. */
export function Modal({ label, children, onClose, className = "" }: Props): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  const close = () => dialog.current?.close();
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog
      ref={dialog}
      class={`modal ${className}`}
      aria-label={label}
      onClose={onClose}
      onClick={(event) => {
        if (event.target === dialog.current) close();
      }}
    >
      <div class="modal-inner">{children(close)}</div>
    </dialog>
  );
}
