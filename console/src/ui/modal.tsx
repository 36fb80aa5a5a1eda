import type { ComponentChildren, JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

interface Props {
  label: string;
  children: (close: () => void) => ComponentChildren;
  onClose: () => void;
  className?: string;
}

/** A native dialog: the browser keeps the focus inside, closes it on Escape, and gives the focus back to the opener. */
export function Modal({ label, children, onClose, className = "" }: Props): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  const isClosed = useRef(false);
  // The browser tells `close` in a later task; a key pressed before that must already find the dialog gone.
  function tell(): void {
    if (isClosed.current) return;
    isClosed.current = true;
    onClose();
  }
  function close(): void {
    dialog.current?.close();
    tell();
  }
  // Before the next key, which is meant for it.
  useLayoutEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog
      ref={dialog}
      class={`modal ${className}`}
      aria-label={label}
      onClose={tell}
      onCancel={(event) => {
        if (event.target !== dialog.current) return;
        event.preventDefault();
        close();
      }}
      onClick={(event) => {
        if (event.target === dialog.current) close();
      }}
    >
      <div class="modal-inner">{children(close)}</div>
    </dialog>
  );
}
