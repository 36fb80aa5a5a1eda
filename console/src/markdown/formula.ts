/** Formulas as MathML elements. Nothing is parsed as HTML, and no formula may name an address or a style. */

import temml from "temml";

export function formula(text: string, isBlock: boolean): Element | undefined {
  const holder = document.createElement("span");
  try {
    temml.render(text, holder, { displayMode: isBlock, throwOnError: true, trust: false, maxExpand: 100, maxSize: [20, 20] });
  } catch {
    return undefined;
  }
  return holder.firstElementChild ?? undefined;
}
