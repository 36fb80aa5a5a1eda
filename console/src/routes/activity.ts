/** The pages of the activity and settings. */

import type { Route } from "../routes.ts";

export const activityRoutes: readonly Route[] = [];
