/** The pages of the console in one table: address, permission, place in the navigation, and the chunk that draws each. */

import type { FunctionComponent } from "preact";
import { identity } from "./link/who.ts";
import { activityRoutes } from "./routes/activity.ts";
import { buildRoutes } from "./routes/build.ts";
import { peopleRoutes } from "./routes/people.ts";
import type { IconName } from "./ui/icons.tsx";
import type { Words } from "./words/en.ts";

export interface PageProps {
  /** The parts of the address that the pattern names with a colon. */
  params: Readonly<Record<string, string>>;
  query: Readonly<Record<string, string>>;
  go: (path: string, replace?: boolean) => void;
}

export type PageName = keyof Words["pages"];

export interface Route {
  /** A part that begins with a colon stands for any word: `/agents/:image`. */
  path: string;
  name: PageName;
  /** The permissions of which the user needs one. A page without any is for everybody. */
  needs?: readonly string[];
  /** Pages of one area are the tabs of each other, if they have no parameter. */
  area: Area;
  /** The drawing in the navigation. A page without one is reached from others. */
  icon?: IconName;
  /** Whether it is no tab of its area, although it has no parameter: a page where something new is made. */
  isApart?: boolean;
  load: () => Promise<{ default: FunctionComponent<PageProps> }>;
}

export type Area = "home" | "agents" | "resources" | "activity" | "usage" | "people" | "settings" | "me";

export interface FoundPage {
  route: Route;
  params: Record<string, string>;
}

export const routes: readonly Route[] = [...buildRoutes, ...activityRoutes, ...peopleRoutes];

/** The page of an address. Words win over parameters. */
export function findPage(path: string): FoundPage | undefined {
  const parts = path.split("/").filter(Boolean);
  const fitting = routes.filter((route) => paramsOf(route, parts) !== undefined);
  const route = fitting.toSorted((a, b) => a.path.split(":").length - b.path.split(":").length)[0];
  if (route === undefined) return undefined;
  return { route, params: paramsOf(route, parts)! };
}

function paramsOf(route: Route, parts: readonly string[]): Record<string, string> | undefined {
  const pattern = route.path.split("/").filter(Boolean);
  if (pattern.length !== parts.length) return undefined;
  const params: Record<string, string> = {};
  for (const [index, word] of pattern.entries()) {
    if (word.startsWith(":")) params[word.slice(1)] = decoded(parts[index]!);
    else if (word !== parts[index]) return undefined;
  }
  return params;
}

/** A part of an address. One that somebody has cut within a letter stays as it is. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function may(permission: string): boolean {
  return identity.value?.permissions.includes(permission) ?? false;
}

export const mayOpen = ({ needs }: Route) => needs === undefined || needs.some(may);

/** The areas that the user sees in the navigation. */
export const navigation = () => routes.filter((route) => route.icon !== undefined && mayOpen(route));

/** Whether an address of a page is one that the user may open. Conversations are for everybody. */
export const isOpenTo = (path: string) => path === "/" || (findPage(path) !== undefined && mayOpen(findPage(path)!.route));

/** The pages of an area that stand beside each other. */
export const tabsOf = (area: Area) => routes.filter((route) => route.area === area && !route.path.includes(":") && route.isApart !== true && mayOpen(route));
