/** The pages of the people and money. */

import type { Route } from "../routes.ts";

export const peopleRoutes: readonly Route[] = [];
