/** The pages of the builder: agents, resources, tools, files. */

import type { Route } from "../routes.ts";

export const buildRoutes: readonly Route[] = [];
