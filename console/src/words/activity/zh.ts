import type { ActivityWords } from "./en.ts";

export const zh: ActivityWords = {};
