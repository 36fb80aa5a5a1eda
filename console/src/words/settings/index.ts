import { wing } from "../wing.ts";
import { en } from "./en.ts";

export const settingsWords = await wing(en, () => import("./zh.ts"));
