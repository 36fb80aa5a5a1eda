import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";

const REST_MS = 180;

/** A formula. It is its source until the library has come, and stays so if it cannot be read. */
export function Maths({ text, isBlock = false }: { text: string; isBlock?: boolean }): JSX.Element {
  const holder = useRef<HTMLElement>(null);
  useEffect(() => {
    const timer = setTimeout(() => {
      import("./formula.ts")
        .then(({ formula }) => {
          const element = formula(text, isBlock);
          if (element !== undefined) holder.current?.replaceChildren(element);
        })
        .catch(() => undefined);
    }, REST_MS);
    return () => clearTimeout(timer);
  }, [text, isBlock]);
  return isBlock ? (
    <div key={text} ref={holder as preact.RefObject<HTMLDivElement>} class="maths md-scroll" dir="ltr" tabIndex={0}>{text}</div>
  ) : (
    <span key={text} ref={holder} class="maths" dir="ltr">{text}</span>
  );
}
