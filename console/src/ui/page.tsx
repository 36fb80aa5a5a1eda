import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { useLocation } from "preact-iso/router";
import { findPage, type Route, tabsOf } from "../routes.ts";
import { withQuery } from "../state/data.ts";
import { words } from "../words/index.ts";
import { useTitle } from "./title.ts";

interface Props {
  title: string;
  /** What can be done with the whole page, beside its title. */
  tools?: ComponentChildren;
  children: ComponentChildren;
}

/** The frame of a page: its title, the pages beside it, its content. The title takes the focus after a navigation. */
export function Page({ title, tools, children }: Props): JSX.Element {
  const { path, query } = useLocation();
  const heading = useRef<HTMLHeadingElement>(null);
  const strip = useRef<HTMLElement>(null);
  const area = findPage(path)?.route.area;
  const tabs = area === undefined ? [] : tabsOf(area);
  const here = tabOf(tabs, path);
  useTitle(title);
  useEffect(() => {
    const active = document.activeElement;
    if (active !== document.body && active?.closest("main") !== null) return;
    heading.current?.focus();
  }, [path]);
  useEffect(() => strip.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" }), [here, words.value]);
  return (
    <main class="main page">
      <header class="page-head">
        <h1 ref={heading} tabIndex={-1} dir="auto">{title}</h1>
        {tools}
      </header>
      {area !== undefined && tabs.length > 1 && (
        <nav class="tabs" aria-label={words.value.pages[area]} ref={strip}>
          {tabs.map((tab) => (
            <a key={tab.path} href={withQuery(tab.path, { tenant: query["tenant"] })} aria-current={tab !== here ? undefined : tab.path === path ? "page" : "true"}>
              {words.value.pages[tab.name]}
            </a>
          ))}
        </nav>
      )}
      {children}
    </main>
  );
}

/** The tab of an address: its own, or the one that it is below. */
const tabOf = (tabs: readonly Route[], path: string) =>
  tabs.filter((tab) => tab.path === path || path.startsWith(`${tab.path}/`)).toSorted((a, b) => b.path.length - a.path.length)[0];
