import { useEffect, useRef } from "preact/hooks";

/** Does something again and again while the page is in sight. */
export function useRefresh(work: () => unknown, everyMs: number): void {
  const latest = useRef(work);
  latest.current = work;
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) latest.current();
    }, everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
}
