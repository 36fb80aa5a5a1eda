/** The pages of the activity and settings. */

import type { Route } from "../routes.ts";

export const activityRoutes: readonly Route[] = [
  { path: "/activity", name: "activity", needs: ["metrics:read"], area: "activity", icon: "activity", load: () => import("../pages/activity/overview.tsx") },
  { path: "/activity/turns", name: "turns", needs: ["sessions:read"], area: "activity", load: () => import("../pages/activity/turns.tsx") },
  { path: "/activity/turns/:turn", name: "turn", needs: ["sessions:read"], area: "activity", load: () => import("../pages/activity/turn.tsx") },
  { path: "/activity/logs", name: "logs", needs: ["logs:read"], area: "activity", load: () => import("../pages/activity/logs.tsx") },
  { path: "/activity/feedback", name: "feedback", needs: ["sessions:read"], area: "activity", load: () => import("../pages/activity/feedback.tsx") },
  { path: "/activity/metrics", name: "metrics", needs: ["metrics:read"], area: "activity", load: () => import("../pages/activity/metrics.tsx") },
  { path: "/activity/nodes", name: "nodes", needs: ["system:admin"], area: "activity", load: () => import("../pages/activity/nodes.tsx") },
  { path: "/settings", name: "settings", needs: ["config:read"], area: "settings", icon: "settings", load: () => import("../pages/settings/list.tsx") },
  { path: "/settings/history", name: "settingsHistory", needs: ["config:read"], area: "settings", load: () => import("../pages/settings/history.tsx") },
  { path: "/settings/providers", name: "providers", needs: ["metrics:read"], area: "settings", load: () => import("../pages/settings/providers.tsx") },
  { path: "/settings/secrets", name: "secrets", needs: ["tenants:admin"], area: "settings", load: () => import("../pages/settings/secrets.tsx") },
  { path: "/settings/channels", name: "channels", needs: ["tenants:admin"], area: "settings", load: () => import("../pages/settings/channels.tsx") },
  { path: "/settings/webhooks", name: "webhooks", needs: ["tenants:admin"], area: "settings", load: () => import("../pages/settings/webhooks.tsx") },
  { path: "/settings/retention", name: "retention", needs: ["config:read"], area: "settings", load: () => import("../pages/settings/retention.tsx") },
  { path: "/settings/import", name: "importExport", needs: ["images:write", "sessions:export"], area: "settings", load: () => import("../pages/settings/transfer.tsx") },
  { path: "/settings/:key", name: "setting", needs: ["config:read"], area: "settings", load: () => import("../pages/settings/setting.tsx") },
];
