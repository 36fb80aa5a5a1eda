import type { PeopleWords } from "./en.ts";

export const zh: PeopleWords = {};
