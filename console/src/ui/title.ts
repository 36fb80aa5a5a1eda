/** The title of the document: what a tab of the browser, a bookmark and the history call the page. */

import { useEffect } from "preact/hooks";

const PRODUCT = "AgentVM";

export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · ${PRODUCT}`;
    return () => (document.title = PRODUCT);
  }, [title]);
}
