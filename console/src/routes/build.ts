/** The pages of the builder: agents, resources, tools, files. */

import type { Route } from "../routes.ts";

const READ_RESOURCES = ["resources:read"];

export const buildRoutes: readonly Route[] = [
  { path: "/agents", name: "agents", needs: ["images:read"], area: "agents", icon: "agents", load: () => import("../pages/builder/agents.tsx") },
  { path: "/agents/new", name: "newAgent", needs: ["images:write"], area: "agents", isApart: true, load: () => import("../pages/builder/new_agent.tsx") },
  { path: "/agents/portable", name: "portable", needs: ["images:read"], area: "agents", load: () => import("../pages/builder/portable.tsx") },
  { path: "/agents/run", name: "runOnce", needs: ["agent:use"], area: "agents", load: () => import("../pages/builder/run_once.tsx") },
  { path: "/agents/:image", name: "agent", needs: ["images:read"], area: "agents", load: () => import("../pages/builder/agent.tsx") },
  { path: "/resources", name: "resources", needs: READ_RESOURCES, area: "resources", icon: "resources", load: () => import("../pages/builder/resources.tsx") },
  { path: "/resources/new", name: "newResource", needs: ["resources:write"], area: "resources", isApart: true, load: () => import("../pages/builder/new_resource.tsx") },
  { path: "/resources/:id", name: "resource", needs: READ_RESOURCES, area: "resources", load: () => import("../pages/builder/resource.tsx") },
  { path: "/knowledge", name: "knowledge", needs: READ_RESOURCES, area: "resources", load: () => import("../pages/builder/knowledge.tsx") },
  { path: "/knowledge/:base", name: "knowledgeBase", needs: READ_RESOURCES, area: "resources", load: () => import("../pages/builder/knowledge_base.tsx") },
  { path: "/skills", name: "skills", needs: READ_RESOURCES, area: "resources", load: () => import("../pages/builder/skills.tsx") },
  { path: "/skills/:skill", name: "skill", needs: READ_RESOURCES, area: "resources", load: () => import("../pages/builder/skill.tsx") },
  { path: "/files/:session", name: "files", needs: ["sessions:read"], area: "home", load: () => import("../pages/builder/files.tsx") },
];
